"""``python -m mmcredit.diagnose diagnostic=... bank=...``: what training did to claims. See ``--help``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from mmcredit.launch import launch

if TYPE_CHECKING:
    from mmcredit.diagnostics.setting import Diagnostic


def diagnose(cfg: DictConfig) -> dict[str, Any]:
    """Measure and write; returns what was measured: the head of the tables and their folder."""
    from hydra.utils import instantiate

    from mmcredit.build import quiet
    from mmcredit.checks import check_numbers
    from mmcredit.compared import paths
    from mmcredit.diagnostics.findings import write
    from mmcredit.functional import rank

    check_numbers(cfg)
    quiet()
    join_processes()
    diagnostic: Diagnostic = instantiate(cfg.diagnostic, _convert_="all")
    setting: Any = None
    head: dict[str, Any] = {"diagnostic": cfg.name}
    if getattr(diagnostic, "needs_bank", True):
        setting = build_setting(cfg)
        head |= {"bank": setting.bank.hash, "questions": len(setting.bank), "checkpoints": paths(cfg)}
    head |= {"bootstrap": {key: cfg.bootstrap[key] for key in ("replicates", "level", "seed")}}
    found = diagnostic(setting)
    if rank() == 0:
        print(write(found, Path(cfg.out).expanduser(), head))
        print(f"folder {cfg.out}")
    return head | {"out": str(cfg.out)}


def build_setting(cfg: DictConfig) -> Any:
    """The bank, the checkpoints (loaded when their turn comes), and how to score and sample."""
    from functools import partial

    from hydra.utils import instantiate

    from mmcredit.build import policy_alone
    from mmcredit.compared import paths
    from mmcredit.data.encode import Encoder
    from mmcredit.diagnostics.bank import load
    from mmcredit.diagnostics.setting import Setting

    bank, known = load(cfg.bank), paths(cfg)
    cfg.template = {"_target_": "mmcredit.data.templates.Template", **bank.settings["template"]}
    processor = instantiate(cfg.model.processor)
    return Setting(
        bank=bank,
        encoder=Encoder(processor, bank.template),
        checkpoints={name: partial(policy_alone, cfg.model, processor, path=path) for name, path in known.items()},
        engine=instantiate(cfg.rollout.engine),
        grade=instantiate(cfg.reward),
        bootstrap=instantiate(cfg.bootstrap),
        batch=cfg.batch,
        temperature=cfg.rollout.temperature or 1.0,
        **cfg.scoring,
    )


def join_processes() -> None:
    """Under ``torchrun``, the processes share the questions; only rows of numbers travel between them."""
    from torch import distributed

    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
        distributed.init_process_group("gloo")


if __name__ == "__main__":
    launch(diagnose, "diagnose")
