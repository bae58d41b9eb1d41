"""The teacher: a periodic hard copy of the policy, under which methods score with privileged hints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lightning
import torch

from mmcredit.credit import CreditCallback
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.module import CreditModule
from mmcredit.types import UserError


class Teacher(lightning.Callback):
    """Copies the policy's weights before rollout steps 0, ``every``, 2 ``every`` ...; the copy is part of checkpoints.

    Args:
        model: the teacher, a frozen copy of the policy.
        every: rollout steps between copies.
    """

    def __init__(self, model: VisionLanguageModel, every: int) -> None:
        self.model, self.every = model, every

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, CreditModule)
        if pl_module.rollout_step % self.every == 0:
            self.refresh(pl_module.policy)

    @torch.no_grad()
    def refresh(self, policy: VisionLanguageModel) -> None:
        """Copy all weights."""
        for mine, new in zip(self.model.parameters(), policy.parameters(), strict=True):
            mine.copy_(new)


def refresh_interval(chain: Sequence[CreditCallback]) -> int | None:
    """Rollout steps between copies that the methods of the chain ask for; None where none uses a teacher.

    Raises:
        UserError: they ask for different ones, or one below 1.
    """
    asked = {type(m).__name__.lower(): m.refresh_every for m in chain if m.refresh_every is not None}
    for name, every in asked.items():
        if every < 1:
            raise UserError(f"callbacks.{name}.refresh_every={every} must be at least 1")
    if len(set(asked.values())) > 1:
        given = ", ".join(f"callbacks.{name}.refresh_every={every}" for name, every in asked.items())
        raise UserError(f"{given}: methods of a run share one teacher; give them the same value")
    return next(iter(asked.values()), None)
