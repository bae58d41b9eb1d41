"""CreditModule: the training step and nothing else."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import lightning
import torch
from torch import Tensor
from torch.optim import Optimizer

from mmcredit.algorithm.parent import Parent
from mmcredit.algorithm.selection import Batch, collect
from mmcredit.algorithm.statistics import average_ranks, describe
from mmcredit.algorithm.update import Update, trained
from mmcredit.checkpoints import FORMAT
from mmcredit.credit import CreditCallback, Record, advantage_chain, reward_chain
from mmcredit.functional import gather
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.reward.tally import Tally
from mmcredit.rollout.parts import interleave
from mmcredit.rollout.sampling import Sampled
from mmcredit.rollout.text import collate, padded
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Grades, Prompts, Responses, Rollout, Sample, UserError

log = logging.getLogger(__name__)
RESUMED = (
    "rollout_step",
    "drawn_batches",
    "optimizer_steps",
    "skipped_steps",
    "start_metrics",
    "start_sets",
)  # what a checkpoint holds beside Lightning's own


class Engine(Protocol):
    """Samples responses."""

    seconds: dict[str, float]  # so far, by part

    def generate(self, policy: VisionLanguageModel, prompts: Prompts, step: int, shares: int = 1) -> Sampled:
        """Responses; ``prompts`` holds so many versions of each, one after another, with G / shares each."""


@dataclass
class StepReport:
    """What one rollout step was and measured; observers read it after the step."""

    rollout: Rollout
    advantage_BGT: Tensor
    record: Record


class CreditModule(lightning.LightningModule):
    """Policy, engine, reward, chain of methods and parent, joined in one step (pseudocode: ``mmcredit.credit``).

    Args:
        policy: the model that is trained.
        scorer: scores rollouts under the policy and, where the parent needs it, the reference.
        engine, val_engine: sample for training and for validation.
        grade: the rule-based reward.
        algorithm: the parent.
        chain: methods in order of application.
        optimizer: parameters -> optimizer.
        tokenizer: decodes what was sampled.
        contradicts: whether a response carries a claim that the picture contradicts; None where nobody knows.
        val_names: names of the validation sets, in the order of the data module.
        steps: rollout steps in all.
        max_grad_norm: gradient clipping.
    """

    def __init__(
        self,
        policy: VisionLanguageModel,
        scorer: Scorer,
        engine: Engine,
        val_engine: Engine,
        grade: Callable[[Prompts, Responses], Grades],
        algorithm: Parent,
        chain: Sequence[CreditCallback],
        optimizer: Callable[[Iterable[torch.nn.Parameter]], Optimizer],
        tokenizer: Any,
        contradicts: Callable[[str, Sample], bool | None],
        val_names: Sequence[str],
        steps: int,
        max_grad_norm: float,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.policy, self.scorer, self.engine, self.val_engine = policy, scorer, engine, val_engine
        self.teacher = scorer.models.get(Weights.TEACHER)  # a part of this module: of its checkpoints, too
        self.grade, self.algorithm, self.chain, self.make_optimizer = grade, algorithm, tuple(chain), optimizer
        self.tokenizer, self.val_names, self.tally = tokenizer, tuple(val_names), Tally(contradicts)
        self.steps, self.max_grad_norm = steps, max_grad_norm
        self.rollout_step = self.optimizer_steps = self.skipped_steps = 0
        self.drawn_batches = 0  # data batches, by which the order of the data goes on
        self.start_metrics: dict[str, float] = {}
        self.start_sets: dict[str, str] = {}  # on what they were measured: validation set -> fingerprint
        self.report: StepReport | None = None
        self.keep_tokens = False  # an observer sets it before a step of which it wants the numbers of each token
        self.record = Record()  # of the step under way
        self.seconds = Counter[str]()  # of all steps since the start or the resume, by stage

    def training_step(self, dataloader_iter: Iterator[tuple[Prompts, int, int]]) -> None:
        """One rollout step: sample, grade, assign credit, update. Draws as many data batches as the selection needs."""
        tokens_before, parts_before = self.tokens(), self.parts()
        self.record = record = Record(per_token={} if self.keep_tokens else None)
        self.keep_tokens = False

        def draw() -> Rollout:
            self.drawn_batches += 1
            with record.stage("data"):
                prompts = next(dataloader_iter)[0]
            rollout = self.sample(prompts, record)
            for method in self.chain:
                method.on_rollout(rollout, record)
            return rollout

        batch = collect(draw, self.algorithm.selection, record)
        if batch.total:
            advantage_BG, advantage_BGT, batch = self._learn(batch, record)
        else:
            self.skipped_steps += 1
            advantage_BG = torch.zeros(batch.rollout.reward_BG.shape)
            advantage_BGT = torch.zeros(batch.rollout.shape)
        self.scorer.forget()
        self.rollout_step += 1
        describe(batch.rollout, advantage_BG, record)
        average_ranks(record, len(batch.rollout.prompts))
        record.scalar("train/rollout_steps", self.rollout_step)
        record.scalar("train/optimizer_steps", self.optimizer_steps)
        record.scalar("train/skipped_steps", self.skipped_steps)
        for kind, count in self.tokens().items():
            record.scalar(f"scoring/tokens_{kind}", count - tokens_before[kind])
        for part, seconds in self.parts().items():
            record.seconds[part] = seconds - parts_before[part]
        self.seconds.update(record.seconds)
        self.report = StepReport(batch.rollout, advantage_BGT, record)
        self.trainer.should_stop = self.rollout_step >= self.steps

    def sample(self, prompts: Prompts, record: Record) -> Rollout:
        """Responses of the policy, graded; their log-probs, where sampling knows what scoring would find."""
        step = self.rollout_step
        edits = [edit for method in self.chain for edit in method.sampling_edits(step)]
        with record.stage("rollout"):
            seeded = (edit.seeded(self.scorer.seed, step, share) for share, edit in enumerate(edits))
            seen = [self.scorer.sight.edited(prompts, edit) for edit in seeded] or [prompts]
            sampled = self.engine.generate(self.policy, interleave(seen), step, len(seen))
            responses, logp_BGT = self._collate(sampled.ids), padded(sampled.logps)
        with record.stage("reward"):
            grades = self.grade(prompts, responses)
        reward_BG, scored = grades.reward_BG, sampled.exact and not edits
        other_BGT = None if sampled.exact else logp_BGT
        if self.algorithm.overlong is not None:
            reward_BG = reward_BG + self.algorithm.overlong(responses.mask_BGT)
        if not scored:
            logp_BGT = torch.zeros_like(logp_BGT)
        return Rollout(
            prompts, responses, grades, self.rollout_step, logp_BGT, reward_BG, scored=scored, engine_logp_BGT=other_BGT
        )

    def _collate(self, ids: list[list[Tensor]]) -> Responses:
        return collate(self.tokenizer, ids, self.policy.end_ids.tolist())

    def _learn(self, batch: Batch, record: Record) -> tuple[Tensor, Tensor, Batch]:
        """Advantage [B, G] and [B, G, T], and the batch with its final reward."""
        update = self.update
        with record.stage("old_logp"):
            update.score_old(batch)
        with record.stage("credit"):
            rollout = reward_chain(self.chain, batch.rollout, self.scorer, record)
            advantage_BG = self.algorithm.advantage(rollout.reward_BG)
            advantage_BGT = advantage_chain(self.chain, rollout, advantage_BG, self.scorer, record)
        with record.stage("reference"):
            view = View(weights=Weights.REFERENCE)
            reference = self.scorer.logp(rollout, view).clone() if self.algorithm.kl_coef else None
        batch = replace(batch, rollout=rollout)
        with record.stage("update"):
            self.optimizer_steps += update(batch, advantage_BGT, reference, record)
        return advantage_BG, advantage_BGT, batch

    @property
    def update(self) -> Update:
        """Optimizer steps over the mini-batches."""
        return Update(self, self.algorithm, self.chain, self.scorer, self.max_grad_norm)

    def tokens(self) -> Counter[str]:
        """What all ranks' scorers went through so far."""
        return sum(gather(self.scorer.tokens), Counter[str]())

    def parts(self) -> Counter[str]:
        """Seconds so far inside stages, ``stage/part``: sampling's, the vision tower's, and each view's."""
        scored = {f"score/{view}": seconds for view, seconds in self.scorer.seconds.items()}
        return Counter[str]({f"rollout/{part}": s for part, s in self.engine.seconds.items()} | scored)

    def configure_optimizers(self) -> Optimizer:
        return self.make_optimizer(trained(self.policy))

    def transfer_batch_to_device(self, batch: Prompts, device: torch.device, dataloader_idx: int) -> Prompts:
        return batch  # the policy moves what it needs

    def configure_model(self) -> None:
        """All models where they are needed: on this rank's device, or their parts on all ranks'."""
        strategy: Any = self.trainer.strategy
        if hasattr(strategy, "share_out"):
            strategy.share_out(self.scorer.models.values())
        else:
            self.scorer.to(strategy.root_device)

    def on_validation_epoch_start(self) -> None:
        self.tally.clear()

    def validation_step(self, prompts: Prompts, batch_idx: int, dataloader_idx: int = 0) -> None:
        """One sampled response a question; the same draws at every validation."""
        sampled = self.val_engine.generate(self.policy, prompts, 0)  # by all ranks together
        if len(prompts):  # a rank's share of the last batch may be empty
            responses = self._collate(sampled.ids)
            grades = self.grade(prompts, responses)
            self.tally.count(self.val_names[dataloader_idx], prompts, responses, grades)

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.tally.means(self.device))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["mmcredit"] = {"format": FORMAT} | {key: getattr(self, key) for key in RESUMED}
        checkpoint["mmcredit"] |= {"trained": len(trained(self.policy)), "methods": self._methods}

    @property
    def _methods(self) -> list[str]:
        return [type(method).__name__ for method in self.chain]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        before, now = checkpoint["mmcredit"]["trained"], len(trained(self.policy))
        if before != now:
            raise UserError(
                f"the checkpoint trained {before} tensors, this run {now}: "
                "resume with the same model/train and model.train"
            )
        if (methods := checkpoint["mmcredit"].get("methods", self._methods)) != self._methods:
            log.warning("the checkpoint was trained with methods %s, this run goes on with %s", methods, self._methods)
        for key in RESUMED:
            setattr(self, key, checkpoint["mmcredit"].get(key, getattr(self, key)))
