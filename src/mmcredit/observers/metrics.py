"""Writes every recorded number to the logger: scalars everywhere, histograms where TensorBoard listens."""

from __future__ import annotations

import lightning
from lightning.pytorch.loggers import TensorBoardLogger

from mmcredit.module import CreditModule, StepReport
from mmcredit.observers.base import StepObserver


class Metrics(StepObserver):
    """Scalars each step, histograms every ``histogram_every`` steps. The x-axis counts rollout steps."""

    def __init__(self, histogram_every: int = 10) -> None:
        self.histogram_every = histogram_every

    def observe(self, trainer: lightning.Trainer, module: CreditModule, report: StepReport) -> None:
        step = module.rollout_step
        seconds = {f"seconds/{stage}": value for stage, value in report.record.seconds.items()}
        for logger in trainer.loggers:
            logger.log_metrics(report.record.scalars | seconds, step=step)
            if isinstance(logger, TensorBoardLogger) and (step - 1) % self.histogram_every == 0:
                for key, values in report.record.histograms.items():
                    if values.numel():
                        logger.experiment.add_histogram(key, values, step)
