"""How far a run has come, and what its checkpoints keep of that."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import lightning

from mmcredit.algorithm.update import trained
from mmcredit.checkpoints import FORMAT
from mmcredit.credit import CreditCallback
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import UserError

log = logging.getLogger(__name__)
KEPT = ("rollout_step", "drawn_batches", "optimizer_steps", "skipped_steps", "start_metrics", "start_sets")


class Resumable(lightning.LightningModule):
    """Counters of a run, which it goes on with after a resume."""

    policy: VisionLanguageModel
    chain: Sequence[CreditCallback]

    def __init__(self) -> None:
        super().__init__()
        self.rollout_step = self.optimizer_steps = self.skipped_steps = 0
        self.drawn_batches = 0  # data batches, by which the order of the data goes on
        self.start_metrics: dict[str, float] = {}
        self.start_sets: dict[str, str] = {}  # on what they were measured: validation set -> fingerprint

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        kept = {key: getattr(self, key) for key in KEPT}
        kept |= {"trained": len(trained(self.policy)), "methods": self._methods()}
        checkpoint["mmcredit"] = {"format": FORMAT} | kept

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from there.

        Raises:
            UserError: other parameters were trained; other methods are only warned of.
        """
        kept = checkpoint["mmcredit"]
        if (before := kept["trained"]) != (now := len(trained(self.policy))):
            raise UserError(
                f"the checkpoint trained {before} tensors, this run {now}: "
                "resume with the same model/train and model.train"
            )
        if (methods := kept.get("methods", self._methods())) != self._methods():
            log.warning(
                "the checkpoint was trained with methods %s, this run goes on with %s", methods, self._methods()
            )
        for key in KEPT:
            setattr(self, key, kept.get(key, getattr(self, key)))

    def _methods(self) -> list[str]:
        return [type(method).__name__ for method in self.chain]
