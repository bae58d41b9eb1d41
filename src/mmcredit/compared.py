"""Checkpoints that a diagnostic compares: their names and folders."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from mmcredit.missing import missing_weights
from mmcredit.types import UserError


def paths(cfg: DictConfig) -> dict[str, str]:
    """Name -> folder of every checkpoint, the base first.

    Raises:
        UserError: no folder there, or one name twice.
    """
    others = OmegaConf.to_container(cfg.checkpoints, resolve=True) if OmegaConf.is_config(cfg.checkpoints) else {}
    if not isinstance(others, dict) or cfg.base in others:
        raise UserError(f"checkpoints={others} must be names and folders, e.g. 'checkpoints={{pacg: runs/a/policy}}', "
                        f"none of them base={cfg.base}")  # fmt: skip
    found = {str(name): str(path) for name, path in {cfg.base: cfg.model.path, **others}.items()}
    for name, path in found.items():
        if missing := missing_weights(OmegaConf.create({"model": {"path": path}})):
            raise UserError(f"checkpoint {name}: {missing[0]}")
    return found
