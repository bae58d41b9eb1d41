"""Optimizer steps over the mini-batches of a step; gradients are summed over micro-batches and over ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import lightning
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor

from mmcredit.algorithm import mismatch
from mmcredit.algorithm.objective import loss_terms
from mmcredit.algorithm.parent import Parent
from mmcredit.algorithm.selection import Batch
from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import gather
from mmcredit.models.shard import whole
from mmcredit.rollout.parts import take
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View

MISMATCH_LIMIT = 0.1  # nats between engine and trainer; bfloat16 gives .01 to .02, .06 with experts


@dataclass(frozen=True)
class Update:
    """Applies the parent's loss to the policy.

    Args:
        host: the module that owns optimizer and backward pass.
    """

    host: lightning.LightningModule
    algorithm: Parent
    chain: Sequence[CreditCallback]
    scorer: Scorer
    max_grad_norm: float

    def on_policy(self, batch: Batch) -> bool:
        """Whether the old log-probs of the first mini-batch come from its own pass, before any optimizer step."""
        return batch.rollout.scored or not any(method.needs_old_logp for method in self.chain)

    def score_old(self, batch: Batch) -> None:
        """Fill in the log-probs before the update, where a pass of its own is needed."""
        rollout, known = batch.rollout, 0
        if rollout.scored:
            self.scorer.adopt(rollout)
            return
        if self.on_policy(batch):
            known = batch.mini_batches(self.algorithm.mini_batch)[0].stop
            rollout = rollout.select(slice(known, None))
        with self.scorer.policy.pace.together():  # ranks without such prompts run along
            if len(rollout.prompts):
                batch.rollout.logp_BGT[known:] = self.scorer.logp(rollout, View())

    def __call__(self, batch: Batch, advantage_BGT: Tensor, reference_BGT: Tensor | None, record: Record) -> int:
        """Number of optimizer steps made."""
        optimizer, parameters = self.host.optimizers(), trained(self.scorer.policy)
        assert isinstance(optimizer, LightningOptimizer)
        minis = batch.mini_batches(self.algorithm.mini_batch) * self.algorithm.epochs
        on_policy, pace = self.on_policy(batch), self.scorer.policy.pace
        totals, norm = Counter[str]({"loss": 0.0, "policy_loss": 0.0}), 0.0
        for i, mini in enumerate(minis):
            optimizer.zero_grad()
            with pace.together():
                with self._alone():
                    for part in self._parts(batch, mini, advantage_BGT, reference_BGT, record, on_policy and i == 0):
                        totals.update(part)
                pace.exchange(self.scorer.policy, self.host.manual_backward)
            norm += clip(parameters, self.max_grad_norm)
            optimizer.step()
            self.scorer.forget()
        summed = Counter[str]()
        for rank_totals in gather(totals):
            summed.update(rank_totals)
        for key, total in summed.items():
            record.scalar(f"train/{key}", total / len(minis))
        record.scalar("train/grad_norm", norm / len(minis))
        mismatch.report(record, MISMATCH_LIMIT)
        return len(minis)

    def _parts(
        self, batch: Batch, mini: slice, advantage: Tensor, reference: Tensor | None, record: Record, on_policy: bool
    ) -> Iterator[dict[str, float]]:
        """Backward pass of each micro-batch; yields its part of every reported number."""
        rollout, rows = batch.rollout, self._rows(mini, advantage)
        size = self._sum_ranks(self.algorithm.reduction.size(rollout.mask_BGT[mini]))
        tokens = self._sum_ranks(rollout.mask_BGT[rows].sum())
        for piece in slices(0, len(rows), self.algorithm.micro_batch):
            here = rows[piece]
            whole = len(rows) == mini.stop - mini.start
            part = rollout.select(slice(here[0], here[-1] + 1)) if whole else take(rollout, here)
            ref = None if reference is None else reference[here]
            terms, watched = loss_terms(
                self.algorithm, self.chain, self.scorer, part, advantage[here], ref, size, record, on_policy
            )
            if on_policy and not whole:
                rollout.logp_BGT[here] = part.logp_BGT  # which this pass has filled in
            loss = torch.stack(list(terms.values())).sum()
            if not torch.isfinite(loss):
                raise FloatingPointError(f"the loss of step {rollout.step + 1} is not finite: {terms}")
            loss_of_ranks = loss * self.host.trainer.world_size  # the exchange averages over ranks
            self.host.manual_backward(self.scorer.policy.pace.joined(loss_of_ranks))
            means = {key: float(value / tokens) for key, value in watched.items()}
            yield {key: float(value.detach()) for key, value in (terms | {"loss": loss}).items()} | means

    def _rows(self, mini: slice, advantage_BGT: Tensor) -> list[int]:
        """Prompts of the mini-batch that add to the loss: all, or, where nothing but advantages does, those that have
        one. The denominators of the reduction count all."""
        rows = range(mini.start, mini.stop)
        adds = any(type(method).on_loss is not CreditCallback.on_loss for method in self.chain)
        if adds or self.algorithm.kl_coef or self.algorithm.entropy_coef:
            return list(rows)
        return [b for b in rows if advantage_BGT[b].any()]

    def _alone(self) -> AbstractContextManager[None]:
        """Backward passes inside stay on this rank."""
        return getattr(self.host.trainer.strategy.model, "no_sync", nullcontext)()

    def _sum_ranks(self, value: Tensor) -> Tensor:
        return self.host.trainer.strategy.reduce(value.to(self.host.device), reduce_op="sum")


def trained(policy: torch.nn.Module) -> list[torch.nn.Parameter]:
    """Parameters that are not frozen."""
    return [p for p in policy.parameters() if p.requires_grad]


def clip(parameters: Sequence[torch.nn.Parameter], max_norm: float) -> float:
    """Scale the gradients down to a norm of at most ``max_norm``, of all ranks' parts together; the norm they had."""
    norm = whole(torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
    torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, norm)
    return float(norm)


def slices(start: int, stop: int, size: int) -> list[slice]:
    """[start, stop) cut into pieces of ``size``."""
    return [slice(i, min(i + size, stop)) for i in range(start, stop, size)]
