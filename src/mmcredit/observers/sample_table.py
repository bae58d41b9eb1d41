"""Some prompts of a step with their pictures, responses, rewards and what the methods measured, in TensorBoard."""

from __future__ import annotations

import html

import lightning
import numpy as np
from lightning.pytorch.loggers import TensorBoardLogger

from mmcredit.module import CreditModule, StepReport
from mmcredit.observers.base import StepObserver


class SampleTable(StepObserver):
    """A Markdown table and the picture of the first ``prompts`` prompts, every ``every`` steps."""

    def __init__(self, every: int = 20, prompts: int = 2) -> None:
        self.every, self.prompts = every, prompts

    def observe(self, trainer: lightning.Trainer, module: CreditModule, report: StepReport) -> None:
        step = module.rollout_step
        if (step - 1) % self.every:
            return
        for logger in trainer.loggers:
            if not isinstance(logger, TensorBoardLogger):
                continue
            for b, sample in enumerate(report.rollout.prompts.samples[: self.prompts]):
                logger.experiment.add_text(f"samples/{b}", table(report, b), step)
                if sample.images:
                    picture = np.asarray(sample.images[0])
                    logger.experiment.add_image(f"samples/{b}", picture, step, dataformats="HWC")


def table(report: StepReport, b: int) -> str:
    """Markdown table of prompt ``b``: one row a response, one column a measured number."""
    rollout, measured = report.rollout, report.record.per_response
    sample = rollout.prompts.samples[b]
    lines = [
        f"**{_cell(sample.question)}** gold {_cell(sample.answer)} ({_cell(sample.family or 'no family')}, "
        f"{_cell(sample.id)})",
        "",
        f"| response | answer | {' | '.join(measured)} | advantage |",
        "|" + "---|" * (len(measured) + 3),
    ]
    for g, text in enumerate(rollout.responses.texts[b]):
        numbers = [f"{values[b, g]:.3f}" for values in measured.values()]
        answer = rollout.grades.answers[b][g]
        credit = report.advantage_BGT[b, g, 0]
        lines.append(f"| {_cell(text)} | {_cell(answer or 'none')} | {' | '.join(numbers)} | {credit:.3f} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Model text shown as text: no HTML, no Markdown cell ends."""
    return html.escape(text).replace("|", "&#124;").replace("\n", " ⏎ ")
