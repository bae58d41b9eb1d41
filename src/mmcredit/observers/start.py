"""Checks of the scorer on the run's own model, before anything is validated or trained."""

from __future__ import annotations

import lightning

from mmcredit.credit import Record
from mmcredit.data.datamodule import DataModule
from mmcredit.module import CreditModule
from mmcredit.scoring.startup import check_attention, check_packing, check_sight


class StartChecks(lightning.Callback):
    """Samples for two training prompts, the same on all ranks: does the model see, and do block masks and shared rows
    change nothing?

    Args:
        data: whose first prompts are taken.
    """

    def __init__(self, data: DataModule) -> None:
        self.data, self.done = data, False

    def on_validation_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._check(pl_module)

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._check(pl_module)

    def _check(self, module: lightning.LightningModule) -> None:
        assert isinstance(module, CreditModule)
        if not self.done:
            self.done = True
            trial = module.sample(self.data.first_prompts(2), Record())
            check_sight(trial, module.scorer)
            check_attention(trial, module.scorer)
            check_packing(trial, module.scorer)
