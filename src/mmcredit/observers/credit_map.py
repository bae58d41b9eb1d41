"""Credit maps of some prompts: a page in the run's folder, and a picture in TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import numpy as np
from lightning.pytorch.loggers import TensorBoardLogger

from mmcredit.files import write_text
from mmcredit.module import CreditModule, StepReport
from mmcredit.observers.base import StepObserver
from mmcredit.reporting.credit_map import CreditMap, chain_name, credit_map, worth_showing
from mmcredit.reporting.credit_page import credit_page
from mmcredit.reporting.picture import panel_picture


class CreditMaps(StepObserver):
    """What the run's chain of methods did to the tokens of the first prompts that got any credit.

    Args:
        folder: gets ``step_<number>.html``.
        every: steps between maps, the first step included.
        prompts, responses: shown, at most; the rollout's first ones.
        max_mb: largest page.
    """

    def __init__(self, folder: str, every: int = 50, prompts: int = 4, responses: int = 4, max_mb: float = 10) -> None:
        self.folder, self.every, self.prompts = Path(folder), every, prompts
        self.responses, self.max_mb = responses, max_mb

    def on_train_batch_start(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        assert isinstance(pl_module, CreditModule)
        pl_module.keep_tokens |= pl_module.rollout_step % self.every == 0

    def observe(self, trainer: lightning.Trainer, module: CreditModule, report: StepReport) -> None:
        step = module.rollout_step
        if (step - 1) % self.every or not report.record.per_token:
            return
        shown = self.drawn(module, report)
        write_text(self.folder / f"step_{step:06d}.html", credit_page(shown, self.max_mb))
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                for i, panel in enumerate(shown.panels):
                    picture = np.asarray(panel_picture(shown.chains, panel))
                    logger.experiment.add_image(f"credit_map/{i}", picture, step, dataformats="HWC")

    def drawn(self, module: CreditModule, report: StepReport) -> CreditMap:
        """The map of a step."""
        title = f"Credit map, step {module.rollout_step}"
        views = [view for method in module.chain for view in method.extra_views(module.scorer.seed)]
        places = worth_showing([report])[: self.prompts]
        return credit_map(title, {chain_name(module.chain): report}, places, self.responses, views,
                          module.tally.contradicts)  # fmt: skip
