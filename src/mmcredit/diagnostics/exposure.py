"""How much positive credit do routed claims get, online? PACG, appendix E.3, Table 13 (steps 181-200).

Runs are replayed: each goes on from its last checkpoint (or begins anew) for a window of steps, with its own settings,
seeds and data order, and nothing of it is saved. METHODS section 3: P_pos and M_eff, the latter relative to a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from mmcredit.diagnostics.draws import Resampler
from mmcredit.diagnostics.exposure_watch import ExposureWatch, StepExposure, Tap, watched
from mmcredit.diagnostics.figures import lines
from mmcredit.diagnostics.findings import Cell, Findings, Row, Section
from mmcredit.evaluation.statistics import Bootstrap, Estimate
from mmcredit.functional import world
from mmcredit.module import CreditModule
from mmcredit.types import UserError


class Exposure:
    """Positive-credit exposure of runs.

    Args:
        runs: name -> run folder of ``mmcredit.fit``; M_eff is relative to the first.
        steps: length of the window.
        resume: begin the window at each run's last checkpoint; False: at its start.
        bootstrap: over the steps of the window.

    Raises:
        UserError: no runs, a folder that is none, or an empty window.
    """

    needs_bank = False

    def __init__(
        self, runs: Mapping[str, str] | None, bootstrap: Bootstrap, steps: int = 20, resume: bool = True
    ) -> None:
        if not runs or steps < 1:
            raise UserError(
                f"diagnostic.runs={runs} must name run folders, e.g. 'diagnostic.runs={{grpo: runs/a, dapo: runs/b}}', "
                f"and diagnostic.steps={steps} be at least 1"
            )
        self.bootstrap, self.steps, self.resume = bootstrap, steps, resume
        self.runs = {name: Path(path).expanduser() for name, path in runs.items()}
        for name, folder in self.runs.items():
            wanted = [folder / "config" / "config.yaml"] + [folder / "checkpoints" / "last.ckpt"] * resume
            if missing := [path for path in wanted if not path.is_file()]:
                raise UserError(f"run {name}: {missing[0]} does not exist; mmcredit.fit writes it")

    def __call__(self, setting: None = None) -> Findings:
        """Replay and measure.

        Raises:
            UserError: several processes; a run whose window trained nothing.
        """
        if world() > 1:
            raise UserError("diagnostic=exposure replays runs in one process: start it without torchrun")
        found = {name: replay(folder, self.steps, self.resume) for name, folder in self.runs.items()}
        if idle := [name for name, steps in found.items() if not steps]:
            raise UserError(f"run {idle[0]} trained nothing in {self.steps} steps: dynamic sampling kept no prompt")
        return table(found, self.bootstrap)


def table(found: Mapping[str, Sequence[StepExposure]], bootstrap: Bootstrap) -> Findings:
    """P_pos, M_eff, and M_eff relative to the first run; steps of equal place are drawn together."""
    resampler = Resampler(bootstrap, max(map(len, found.values())))
    rows, masses = list[Row](), {name: _mean(steps, "mass", resampler) for name, steps in found.items()}
    first = next(iter(found))
    for name, steps in found.items():
        row: dict[str, Cell] = {"run": name, "steps": f"{steps[0].step}-{steps[-1].step}"}
        row["P_pos"] = resampler.estimate(_mean(steps, "positive", resampler))
        row["M_eff"] = resampler.estimate(masses[name])
        row[f"M_eff / {first}"] = resampler.estimate(masses[name] / masses[first])
        rows.append(row)
    notes = ["P_pos: share of routed tokens with positive parent credit; M_eff: mean over routed tokens of positive "
             "advantage x unclipped x weight in the reduction; over tokens, responses, then steps"]  # fmt: skip
    longest = max(found.values(), key=len)
    series = {name: [_known(step.positive) for step in steps] for name, steps in found.items()}
    figure = lines(series, [str(step.step) for step in longest], "P_pos")
    return Findings([Section("Positive-credit exposure", rows, notes)], {"exposure": figure})


def _mean(steps: Sequence[StepExposure], key: str, resampler: Resampler) -> Any:
    values = np.full(resampler.clusters, np.nan)
    values[: len(steps)] = [getattr(step, key) for step in steps]
    return resampler.mean(values)


def _known(value: float) -> Estimate:
    return Estimate(value, None, value, value)


class Finish(lightning.Callback):
    """Closes each step of the watch."""

    def __init__(self, watch: ExposureWatch) -> None:
        self.watch = watch

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        assert isinstance(pl_module, CreditModule)
        self.watch.finish(pl_module.rollout_step)


def replay(folder: Path, steps: int, resume: bool) -> list[StepExposure]:
    """Exposure of each step of a run's window; steps without any trained prompt are left out."""
    from hydra.utils import instantiate

    from mmcredit.build import build

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
