"""``python -m mmcredit.diagnose diagnostic=... bank=...``: what training did to claims. See ``--help``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mmcredit.launch import launch


def diagnose(cfg: DictConfig) -> dict[str, Any]:
    """Measure and write; returns what was measured: the head of the tables and their folder."""
    from hydra.utils import instantiate

    from mmcredit.build import quiet
    from mmcredit.checks import check_numbers
    from mmcredit.diagnostics.findings import write
    from mmcredit.functional import rank

    check_numbers(cfg)
    quiet()
    join_processes()
    diagnostic = instantiate(cfg.diagnostic, _convert_="all")
    setting, head = None, {"diagnostic": cfg.name}
    if getattr(diagnostic, "needs_bank", True):
        setting = build_setting(cfg)
        head |= {"bank": setting.bank.hash, "questions": len(setting.bank), "checkpoints": paths(cfg)}
    head |= {"bootstrap": {key: cfg.bootstrap[key] for key in ("replicates", "level", "seed")}}
    found = diagnostic(setting)
    if rank() == 0:
        print(write(found, Path(cfg.out).expanduser(), head))
        print(f"folder {cfg.out}")
    return head | {"out": str(cfg.out)}


def paths(cfg: DictConfig) -> dict[str, str]:
    """Name -> folder of every checkpoint, the base first.

    Raises:
        UserError: no folder there, or one name twice.
    """
    from mmcredit.checks import missing_weights
    from mmcredit.types import UserError

    others = OmegaConf.to_container(cfg.checkpoints, resolve=True) if OmegaConf.is_config(cfg.checkpoints) else {}
    if not isinstance(others, dict) or cfg.base in others:
        raise UserError(f"checkpoints={others} must be names and folders, e.g. 'checkpoints={{pacg: runs/a/policy}}', "
                        f"none of them base={cfg.base}")  # fmt: skip
    found = {str(name): str(path) for name, path in {cfg.base: cfg.model.path, **others}.items()}
    for name, path in found.items():
        if missing := missing_weights(OmegaConf.create({"model": {"path": path}})):
            raise UserError(f"checkpoint {name}: {missing[0]}")
    return found


def build_setting(cfg: DictConfig) -> Any:
    """The bank, the checkpoints (loaded when their turn comes), and how to score and sample."""
    from functools import partial

    from hydra.utils import instantiate

    from mmcredit.data.encode import Encoder
    from mmcredit.diagnostics.bank import load
    from mmcredit.diagnostics.setting import Setting

    bank, known = load(cfg.bank), paths(cfg)
    cfg.template = {"_target_": "mmcredit.data.templates.Template", **bank.settings["template"]}
    processor = instantiate(cfg.model.processor)
    return Setting(
        bank=bank,
        encoder=Encoder(processor, bank.template),
        checkpoints={name: partial(policy, cfg, path, processor) for name, path in known.items()},
        engine=instantiate(cfg.rollout.engine),
        grade=instantiate(cfg.reward),
        bootstrap=instantiate(cfg.bootstrap),
        batch=cfg.batch,
        temperature=cfg.rollout.temperature or 1.0,
        **cfg.scoring,
    )


def policy(cfg: DictConfig, path: str, processor: Any) -> Any:
    """A checkpoint, on this process's GPU if there is one."""
    import torch
    from hydra.utils import instantiate

    from mmcredit.build import choose_threads

    loaded = instantiate(cfg.model.policy, path=path)
    loaded.known_ids = min(len(processor.tokenizer), loaded.vocabulary)
    choose_threads(loaded)
    return loaded.to(f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if torch.cuda.is_available() else "cpu")


def join_processes() -> None:
    """Under ``torchrun``, the processes share the questions."""
    import torch
    from torch import distributed

    if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not distributed.is_initialized():
        distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


if __name__ == "__main__":
    launch(diagnose, "diagnose")
