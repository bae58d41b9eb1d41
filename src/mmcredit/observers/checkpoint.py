"""Checkpoints by rollout step, when training ends, and of the best validations."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any

import lightning
import torch
from lightning.pytorch.plugins.io import AsyncCheckpointIO, CheckpointIO, TorchCheckpointIO
from lightning.pytorch.trainer.states import TrainerFn

from mmcredit.checkpoints import LAST, PARTIAL, best, best_link, clean, point, publish, sweep
from mmcredit.module import CreditModule
from mmcredit.types import UserError


class Checkpoint(lightning.Callback):
    """Saves ``step-<n>.ckpt``; ``last.ckpt`` leads to the newest, ``best_*.ckpt`` to the best. All are always complete
    (``mmcredit.checkpoints``).

    Args:
        folder: where they lie.
        every: rollout steps between two; the last step is always saved.
        keep: newest ones that are kept.
        keep_every: those of every so many steps are kept for good; None: none are.
        keep_best: best ones that are kept, each saved after the validation that found it.
        monitor: metric of a validation by which they are the best.
        mode: ``max`` or ``min``.
        background: write files in a thread, from a copy of all weights and optimizer states.

    Raises:
        UserError: numbers out of range, or another mode.
    """

    def __init__(
        self,
        folder: str,
        every: int = 50,
        keep: int = 1,
        keep_every: int | None = None,
        keep_best: int = 0,
        monitor: str = "val/accuracy",
        mode: str = "max",
        background: bool = False,
    ) -> None:
        low = {"every": (every, 1), "keep": (keep, 1), "keep_best": (keep_best, 0), "keep_every": (keep_every or 1, 1)}
        for name, (value, least) in low.items():
            if value < least:
                raise UserError(f"observers.checkpoint.{name}={value} must be at least {least}")
        if mode not in ("max", "min"):
            raise UserError(f"observers.checkpoint.mode={mode} must be max or min")
        self.folder, self.every, self.keep, self.keep_every = Path(folder), every, keep, keep_every
        self.keep_best, self.monitor, self.sign = keep_best, monitor, 1 if mode == "max" else -1
        self.background, self.lock, self.saved = background, Lock(), -1
        self.names: dict[int, Path] = {}  # by step
        self.best: dict[int, float] = {}

    def setup(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        parts = getattr(trainer.strategy, "_save_distributed_checkpoint", False)
        if self.background and parts:
            raise UserError(
                "observers.checkpoint.background=true writes single files: use trainer.strategy.checkpoint_folder=false"
            )
        trainer.strategy.checkpoint_io = writer(self._publish, self.background)
        if trainer.is_global_zero:
            self.folder.mkdir(parents=True, exist_ok=True)
            clean(self.folder)
            self.best = {step: score for score, step in best(self.folder, self.monitor)}

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, CreditModule)
        if pl_module.rollout_step % self.every == 0:
            self._save(trainer, pl_module.rollout_step)

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        assert isinstance(pl_module, CreditModule)
        if not self.keep_best or trainer.state.fn != TrainerFn.FITTING:
            return
        step, chosen = pl_module.rollout_step, False
        if trainer.is_global_zero:
            with self.lock:
                chosen = self._among_best(step, self._score(trainer))
        if trainer.strategy.broadcast(chosen):
            self._save(trainer, step)
            if trainer.is_global_zero:
                self._retain()

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        assert isinstance(pl_module, CreditModule)
        self._save(trainer, pl_module.rollout_step)

    def _score(self, trainer: lightning.Trainer) -> float:
        found = trainer.callback_metrics
        if self.monitor not in found:
            known = ", ".join(sorted(found))
            raise UserError(f"observers.checkpoint.monitor={self.monitor} was not measured; there are: {known}")
        return float(found[self.monitor])

    def _among_best(self, step: int, score: float) -> bool:
        if math.isnan(score):
            return False
        scores = self.best | {step: score}
        order = sorted(scores, key=lambda step: (self.sign * scores[step], step), reverse=True)[: self.keep_best]
        self.best = {step: scores[step] for step in order}
        return step in self.best

    def _save(self, trainer: lightning.Trainer, step: int) -> None:
        if self.saved == step:
            return
        self.saved, partial = step, self.folder / f"step-{step}.ckpt{PARTIAL}"
        trainer.save_checkpoint(partial)
        if partial.is_dir() and trainer.is_global_zero:  # parts of all ranks; a file is published by its writer
            self._publish(partial)

    def _publish(self, partial: Path) -> None:
        if partial.parent != self.folder or not partial.name.endswith(PARTIAL):
            return  # somebody else saves under a name of their own
        step = int(partial.name.split(".")[0].removeprefix("step-"))
        name = publish(partial, step)
        with self.lock:
            self.names[step] = name
        point(self.folder / LAST, name)
        self._retain()

    def _retain(self) -> None:
        with self.lock:
            wanted = {best_link(self.folder, self.monitor, score, step): step for step, score in self.best.items()}
            for link, step in wanted.items():
                if step in self.names:
                    point(link, self.names[step])
            for score, step in best(self.folder, self.monitor):
                if (link := best_link(self.folder, self.monitor, score, step)) not in wanted:
                    link.unlink()
            sweep(self.folder, self.keep, self.keep_every)


class Direct(TorchCheckpointIO):
    """Writes where it is told to, then calls ``done``; Lightning's own writer goes through memory and a temporary
    folder of the system."""

    def __init__(self, done: Callable[[Path], None]) -> None:
        self.done = done

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        torch.save(checkpoint, path)
        self.done(Path(path))


class Background(AsyncCheckpointIO):
    """``Direct`` in Lightning's thread. Training goes on from the moment that everything is copied."""

    def __init__(self, done: Callable[[Path], None]) -> None:
        super().__init__()
        self.direct = Direct(done)

    @property
    def checkpoint_io(self) -> CheckpointIO:
        return self.direct

    @checkpoint_io.setter
    def checkpoint_io(self, io: CheckpointIO) -> None:
        """Strategies put Lightning's own writer here: it stays out."""


def writer(done: Callable[[Path], None], background: bool) -> CheckpointIO:
    """Writes a checkpoint to one file, then calls ``done`` with its path."""
    return Background(done) if background else Direct(done)
