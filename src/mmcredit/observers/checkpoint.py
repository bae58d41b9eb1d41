"""Checkpoints by rollout step, and the last one when training ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning

from mmcredit.module import CreditModule


class Checkpoint(lightning.Callback):
    """Saves ``last.ckpt`` every ``every`` rollout steps and at the end; written aside, then moved into place."""

    def __init__(self, folder: str, every: int = 50) -> None:
        self.folder, self.every = Path(folder), every
        self.saved = -1

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, CreditModule)
        if pl_module.rollout_step % self.every == 0:
            self._save(trainer, pl_module)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        assert isinstance(pl_module, CreditModule)
        if self.saved != pl_module.rollout_step:
            self._save(trainer, pl_module)

    def _save(self, trainer: lightning.Trainer, module: CreditModule) -> None:
        partial = self.folder / "last.ckpt.partial"
        trainer.save_checkpoint(partial)
        if trainer.is_global_zero:
            partial.replace(self.folder / "last.ckpt")
        self.saved = module.rollout_step
