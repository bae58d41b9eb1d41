"""What observers share: they read the report of each finished rollout step on the first rank."""

from __future__ import annotations

from typing import Any

import lightning

from mmcredit.module import CreditModule, StepReport


class StepObserver(lightning.Callback):
    """Override ``observe``."""

    def observe(self, trainer: lightning.Trainer, module: CreditModule, report: StepReport) -> None:
        """Called after each rollout step; ``module.rollout_step`` counts it."""

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, CreditModule)
        if pl_module.report is not None and trainer.is_global_zero:
            self.observe(trainer, pl_module, pl_module.report)
