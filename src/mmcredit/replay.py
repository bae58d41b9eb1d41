"""A run of ``mmcredit.fit`` gone through again for a window of steps, watched, nothing of it saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from mmcredit.build import build
from mmcredit.diagnostics.exposure_watch import ExposureWatch, StepExposure, Tap, watched
from mmcredit.module import CreditModule


class Finish(lightning.Callback):
    """Closes each step of the watch."""

    def __init__(self, watch: ExposureWatch) -> None:
        self.watch = watch

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        assert isinstance(pl_module, CreditModule)
        self.watch.finish(pl_module.rollout_step)


def replay(folder: Path, steps: int, resume: bool) -> list[StepExposure]:
    """Exposure of each step of a run's window; steps without any trained prompt are left out."""
    cfg, done, ckpt = saved_config(folder), 0, None
    if resume:
        ckpt = str(folder / "checkpoints" / "last.ckpt")
        done = torch.load(ckpt, weights_only=True, mmap=True)["mmcredit"]["rollout_step"]
    cfg.steps = done + steps
    run = build(cfg)
    watch = ExposureWatch(instantiate(cfg.router), run.module.algorithm, Tap())
    run.module.chain = tuple(watched(run.module.chain, watch))
    finish: Any = Finish(watch)
    run.trainer.callbacks.append(finish)  # type: ignore[attr-defined]
    run.module.scorer.to(run.trainer.strategy.root_device)
    run.trainer.fit(run.module, datamodule=run.data, ckpt_path=ckpt, weights_only=True)
    return watch.steps


def saved_config(folder: Path) -> DictConfig:
    """The configuration that a run kept, for one process, watched by nobody and writing nothing."""
    cfg = OmegaConf.load(folder / "config" / "config.yaml")
    assert isinstance(cfg, DictConfig)
    OmegaConf.set_struct(cfg, False)
    cfg.run_dir, cfg.logger, cfg.observers, cfg.val_every = str(folder), None, {}, None
    cfg.trainer.devices = 1
    cfg.trainer.strategy = "auto"
    return cfg
