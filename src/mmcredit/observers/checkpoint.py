"""Checkpoints by rollout step, and the last one when training ends."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lightning

from mmcredit.module import CreditModule


class Checkpoint(lightning.Callback):
    """Saves ``last.ckpt`` every ``every`` rollout steps and at the end; written aside, then moved into place.

    Where every rank writes its part, ``last.ckpt`` is a link to a folder: a link can be replaced at once.
    """

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
        last, partial = self.folder / "last.ckpt", self.folder / "last.ckpt.partial"
        if trainer.is_global_zero and partial.is_dir():
            shutil.rmtree(partial)  # of a run that was killed
        trainer.strategy.barrier()
        trainer.save_checkpoint(partial)
        if trainer.is_global_zero:
            before = last.resolve() if last.is_symlink() else None
            if partial.is_dir():
                names = (self.folder / f"step-{module.rollout_step}{end}.ckpt" for end in ("", "-again"))
                partial = linked(partial, next(name for name in names if name.resolve() != before))
            partial.replace(last)
            if before is not None and before != last.resolve():
                shutil.rmtree(before, ignore_errors=True)
        self.saved = module.rollout_step


def linked(folder: Path, name: Path) -> Path:
    """Give a complete folder its name; a link to it, beside it."""
    shutil.rmtree(name, ignore_errors=True)
    folder.rename(name)
    link = name.with_suffix(".link")
    link.unlink(missing_ok=True)
    link.symlink_to(name.name)
    return link
