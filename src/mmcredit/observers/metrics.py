"""Writes every recorded number to the logger: scalars everywhere, histograms where TensorBoard listens."""

from __future__ import annotations

from typing import Any

import lightning
from lightning.pytorch.loggers import TensorBoardLogger

from mmcredit.module import CreditModule


class Metrics(lightning.Callback):
    """Scalars each step, histograms every ``histogram_every`` steps. The x-axis counts rollout steps."""

    def __init__(self, histogram_every: int = 10) -> None:
        self.histogram_every = histogram_every

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: CreditModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        report, step = pl_module.report, pl_module.rollout_step
        if report is None or not trainer.is_global_zero:
            return
        seconds = {f"seconds/{stage}": value for stage, value in report.seconds.items()}
        for logger in trainer.loggers:
            logger.log_metrics(report.record.scalars | seconds, step=step)
            if isinstance(logger, TensorBoardLogger) and (step - 1) % self.histogram_every == 0:
                for key, values in report.record.histograms.items():
                    if values.numel():
                        logger.experiment.add_histogram(key, values, step)
