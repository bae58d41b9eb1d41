"""The plan of a run that is about to start, on the GPUs that are there."""

from __future__ import annotations

import logging

from omegaconf import DictConfig, OmegaConf

from mmcredit.checks import ranks
from mmcredit.planning.estimate import estimate
from mmcredit.processes import rank
from mmcredit.types import UserError

PIXELS, TEXT_TOKENS = 1_003_520, 200  # as in configs/plan.yaml: of a picture, of a question
log = logging.getLogger(__name__)


def warn(cfg: DictConfig) -> None:
    """Warn where the run will hardly fit on its GPUs; nothing on CPU, or where the model's sizes are not known."""
    import torch

    if cfg.trainer.accelerator != "gpu" or not torch.cuda.is_available() or rank():
        return
    gib = torch.cuda.get_device_properties(0).total_memory / 2**30
    pixels = OmegaConf.select(cfg, "model.processor.max_pixels") or PIXELS
    try:
        found = estimate(cfg, ranks(cfg.trainer), gib, pixels, TEXT_TOKENS).warning()
    except UserError:
        return
    if found:
        log.warning("this run will hardly fit: %s; python -m mmcredit.plan shows the parts", found)
