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
    from mmcredit.planning.estimate import estimate
    from mmcredit.planning.table import table

    quiet()
    hardware = cfg.hardware
    found = estimate(cfg, hardware.gpus, hardware.gib, hardware.pixels, hardware.text_tokens)
    print(json.dumps(asdict(found) | {"peak": found.peak}, indent=1) if hardware.json else table(found))
    if warning := found.warning():
        raise SystemExit(f"warning: {warning}")
    return found


if __name__ == "__main__":
    launch(plan, "plan")
