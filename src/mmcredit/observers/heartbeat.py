"""Says which rank and which stage stalls, before the other ranks' patience ends."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from typing import Any

import lightning

from mmcredit.functional import rank, world
from mmcredit.module import CreditModule
from mmcredit.types import UserError

log = logging.getLogger(__name__)


class Heartbeat(lightning.Callback):
    """A thread on every rank that warns when a stage of a rollout step lasts long, and again whenever that doubles.

    All ranks warn in the end: those that wait for others say so, the one that does not is the one to look at. Process
    groups give up after half an hour (``trainer.strategy``'s ``timeout``).

    Args:
        limit: seconds a stage may last.

    Raises:
        UserError: a limit that is not above 0.
    """

    def __init__(self, limit: float = 300.0) -> None:
        if limit <= 0:
            raise UserError(f"observers.heartbeat.limit={limit} must be above 0 seconds")
        self.limit = limit
        self.stop = threading.Event()
        self.thread: threading.Thread | None = None

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        assert isinstance(pl_module, CreditModule)
        self._start(pl_module)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._end()

    def on_exception(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: Any) -> None:
        self._end()

    def _start(self, module: CreditModule) -> None:
        self.stop.clear()
        watched = threading.get_ident()
        self.thread = threading.Thread(target=self._watch, args=(module, watched), name="heartbeat", daemon=True)
        self.thread.start()

    def _end(self) -> None:
        self.stop.set()
        if self.thread is not None:
            self.thread.join()

    def _watch(self, module: CreditModule, thread: int) -> None:
        told: tuple[str, float] | None = None
        limit = self.limit
        while not self.stop.wait(min(self.limit / 4, 5.0)):
            running = module.record.running
            if running != told:
                limit = self.limit
            if running is not None and (lasted := time.perf_counter() - running[1]) > limit:
                told, limit = running, 2 * lasted
                log.warning(
                    "rank %d of %d: stage %r of step %d has lasted %.0f s, %s",
                    rank(), world(), running[0], module.rollout_step + 1, lasted, whereabouts(thread),
                )  # fmt: skip


def whereabouts(thread: int) -> str:
    """Where a thread is, and whether it waits for other ranks."""
    frame = sys._current_frames().get(thread)
    frames = traceback.extract_stack(frame) if frame is not None else []
    if not frames:
        return "its thread is gone"
    waits = "torch/distributed" in frames[-1].filename
    ours = [f for f in frames if "mmcredit" in f.filename] or frames
    place = f"{ours[-1].filename.rpartition('/')[2]}:{ours[-1].lineno} ({ours[-1].name})"
    return f"{'waiting for other ranks' if waits else 'not waiting for other ranks'}, at {place}"
