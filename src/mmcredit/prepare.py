"""``python -m mmcredit.prepare <job>``: build what training needs. See ``--help``."""

from __future__ import annotations

import sys
from typing import Any

from omegaconf import DictConfig

from mmcredit.launch import launch


def prepare(cfg: DictConfig) -> Any:
    """Run the job that the configuration names."""
    from hydra.utils import instantiate

    return instantiate(cfg.job)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    elif not sys.argv[1].startswith("-") and "=" not in sys.argv[1]:
        sys.argv[1] = f"job={sys.argv[1]}"
    launch(prepare, "prepare")
