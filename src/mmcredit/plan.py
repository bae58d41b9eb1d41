"""``python -m mmcredit.plan experiment=...``: what a run needs, from its configuration alone. See ``--help``."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from omegaconf import DictConfig

from mmcredit.launch import launch


def plan(cfg: DictConfig) -> Any:
    """Print the plan; exit status 1 where the run cannot fit."""
    from mmcredit.build import quiet
    from mmcredit.checks import check_numbers
    from mmcredit.planning.estimate import estimate
    from mmcredit.planning.table import table

    hardware = cfg.hardware
    if hardware.gpus is None:
        hardware.gpus = gpus(cfg.trainer)
    check_numbers(cfg)
    quiet()
    found = estimate(cfg, hardware.gpus, hardware.gib, hardware.pixels, hardware.text_tokens)
    print(json.dumps(asdict(found) | {"peak": found.peak}, indent=1) if hardware.json else table(found))
    if warning := found.warning():
        raise SystemExit(f"warning: {warning}")
    return found


def gpus(trainer: DictConfig) -> int:
    """GPUs that a trainer's configuration asks for.

    Raises:
        UserError: as many as there are.
    """
    from mmcredit.checks import ranks
    from mmcredit.types import UserError

    if isinstance(trainer.devices, str) or trainer.devices == -1:
        raise UserError(f"trainer.devices={trainer.devices} is no number to plan with: add e.g. hardware.gpus=8")
    return ranks(trainer)


if __name__ == "__main__":
    launch(plan, "plan")
