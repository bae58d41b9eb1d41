"""CreditModule: the training step and nothing else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import lightning
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor
from torch.optim import Optimizer
from torchmetrics import MeanMetric

from mmcredit.algorithm.objective import loss_terms
from mmcredit.algorithm.parent import Parent
from mmcredit.algorithm.statistics import describe
from mmcredit.credit import CreditCallback, Record, advantage_chain, reward_chain
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.text import collate
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Grades, Prompts, Responses, Rollout, Sample, UserError

RESUMED = ("rollout_step", "optimizer_steps", "start_metrics")  # what a checkpoint holds beside Lightning's own


class Engine(Protocol):
    """Samples responses."""

    def generate(self, policy: VisionLanguageModel, prompts: Prompts, step: int) -> list[list[Tensor]]:
        """[B][G] sampled ids."""


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
        self.grade, self.algorithm, self.chain, self.make_optimizer = grade, algorithm, tuple(chain), optimizer
        self.tokenizer, self.contradicts, self.val_names = tokenizer, contradicts, tuple(val_names)
        self.steps, self.max_grad_norm = steps, max_grad_norm
        self.rollout_step = 0
        self.optimizer_steps = 0
        self.start_metrics: dict[str, float] = {}
        self.report: StepReport | None = None
        self.val_metrics: Any = torch.nn.ModuleDict()

    def training_step(self, prompts: Prompts, batch_idx: int) -> None:
        """One rollout step: sample, grade, assign credit, update."""
        record, tokens_before = Record(), self.scorer.tokens.copy()
        rollout = self.sample(prompts, record)
        with record.stage("credit"):
            rollout = reward_chain(self.chain, rollout, self.scorer, record)
            advantage_BG = self.algorithm.advantage(rollout.reward_BG)
            advantage_BGT = advantage_chain(self.chain, rollout, advantage_BG, self.scorer, record)
        with record.stage("reference"):
            reference = self._reference(rollout)
        with record.stage("update"):
            self.update(rollout, advantage_BGT, reference, record)
        self.scorer.forget()
        self.rollout_step += 1
        describe(rollout, advantage_BG, record)
        record.scalar("train/rollout_steps", self.rollout_step)
        record.scalar("train/optimizer_steps", self.optimizer_steps)
        for kind, count in self.scorer.tokens.items():
            record.scalar(f"scoring/tokens_{kind}", count - tokens_before[kind])
        self.report = StepReport(rollout, advantage_BGT, record)
        self.trainer.should_stop = self.rollout_step >= self.steps

    def sample(self, prompts: Prompts, record: Record) -> Rollout:
        """Responses of the policy, graded, with their log-probs before the update."""
        with record.stage("rollout"):
            responses = self._respond(self.engine, prompts, self.rollout_step)
        with record.stage("reward"):
            grades = self.grade(prompts, responses)
        unknown = torch.zeros(responses.mask_BGT.shape)
        rollout = Rollout(prompts, responses, grades, self.rollout_step, unknown, grades.reward_BG)
        for method in self.chain:
            method.on_rollout(rollout, record)
        with record.stage("old_logp"):
            return replace(rollout, logp_BGT=self.scorer.logp(rollout, View()).clone())

    def _respond(self, engine: Engine, prompts: Prompts, step: int) -> Responses:
        return collate(self.tokenizer, engine.generate(self.policy, prompts, step), self.policy.end_ids.tolist())

    def update(self, rollout: Rollout, advantage_BGT: Tensor, reference: Tensor | None, record: Record) -> None:
        """Optimizer steps over the mini-batches, gradients summed over micro-batches."""
        algorithm, optimizer = self.algorithm, self.optimizers()
        assert isinstance(optimizer, LightningOptimizer)
        minis = slices(0, len(rollout.prompts), algorithm.mini_batch) * algorithm.epochs
        totals: dict[str, float] = defaultdict(float)
        for mini in minis:
            mask = rollout.mask_BGT[mini]
            size, tokens = self._sum_ranks(algorithm.reduction.size(mask)), self._sum_ranks(mask.sum())
            optimizer.zero_grad()
            for micro in slices(mini.start, mini.stop, algorithm.micro_batch):
                ref = None if reference is None else reference[micro]
                part = rollout.select(micro)
                terms, watched = loss_terms(
                    algorithm, self.chain, self.scorer, part, advantage_BGT[micro], ref, size, record
                )
                loss = torch.stack(list(terms.values())).sum()
                if not torch.isfinite(loss):
                    raise FloatingPointError(f"the loss of step {self.rollout_step + 1} is not finite: {terms}")
                self.manual_backward(loss * self.trainer.world_size)  # gradients are averaged over ranks
                for key, value in (terms | {"loss": loss}).items():
                    totals[key] += float(value.detach())
                for key, value in watched.items():
                    totals[key] += float(value / tokens)
            totals["grad_norm"] += float(torch.nn.utils.clip_grad_norm_(self.trained_parameters(), self.max_grad_norm))
            optimizer.step()
            self.optimizer_steps += 1
            self.scorer.forget()
        for key, total in totals.items():
            record.scalar(f"train/{key}", total / len(minis))

    def _sum_ranks(self, value: Tensor) -> Tensor:
        return self.trainer.strategy.reduce(value.to(self.device), reduce_op="sum")

    def _reference(self, rollout: Rollout) -> Tensor | None:
        if not self.algorithm.kl_coef:
            return None
        return self.scorer.logp(rollout, View(weights=Weights.REFERENCE)).clone()

    def trained_parameters(self) -> list[torch.nn.Parameter]:
        """Parameters of the policy that are not frozen."""
        return [p for p in self.policy.parameters() if p.requires_grad]

    def configure_optimizers(self) -> Optimizer:
        return self.make_optimizer(self.trained_parameters())

    def transfer_batch_to_device(self, batch: Prompts, device: torch.device, dataloader_idx: int) -> Prompts:
        return batch  # the policy moves what it needs

    def on_fit_start(self) -> None:
        self.scorer.to(self.device)

    def on_validation_epoch_start(self) -> None:
        self.val_metrics.clear()

    def validation_step(self, prompts: Prompts, batch_idx: int, dataloader_idx: int = 0) -> None:
        """One sampled response a question; the same draws at every validation."""
        name = self.val_names[dataloader_idx]
        responses = self._respond(self.val_engine, prompts, 0)
        grades = self.grade(prompts, responses)
        for sample, text, correct in zip(prompts.samples, responses.texts, grades.correct_BG, strict=True):
            self._count(f"{name}/accuracy", correct)
            self._count(f"{name}/accuracy_{sample.family or 'other'}", correct)
            if correct.any() and (false_claim := self.contradicts(text[0], sample)) is not None:
                self._count(f"{name}/unsupported_rate", torch.tensor(false_claim))
        self._count(f"{name}/format", grades.format_BG)

    def on_validation_epoch_end(self) -> None:
        self.log_dict({key: metric.compute() for key, metric in self.val_metrics.items()})

    def _count(self, key: str, values: Tensor) -> None:
        if key not in self.val_metrics:
            self.val_metrics[key] = MeanMetric()
        self.val_metrics[key].update(values.float())

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["mmcredit"] = {key: getattr(self, key) for key in RESUMED}
        checkpoint["mmcredit"]["trained"] = len(self.trained_parameters())

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        trained = checkpoint["mmcredit"]["trained"]
        if trained != len(self.trained_parameters()):
            raise UserError(
                f"the checkpoint trained {trained} tensors, this run {len(self.trained_parameters())}: "
                "resume with the same model.policy.freeze_vision and last_layers"
            )
        for key in RESUMED:
            setattr(self, key, checkpoint["mmcredit"][key])


def slices(start: int, stop: int, size: int) -> list[slice]:
    """[start, stop) cut into pieces of ``size``."""
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]
