"""How much positive credit do routed claims get, online? PACG, appendix E.3, Table 13 (steps 181-200).

Runs are replayed: each goes on from its last checkpoint (or begins anew) for a window of steps, with its own settings,
seeds and data order, and nothing of it is saved. METHODS section 3: P_pos and M_eff, the latter relative to a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mmcredit.diagnostics.draws import Draws, Resampler
from mmcredit.diagnostics.exposure_watch import StepExposure
from mmcredit.diagnostics.figures import lines
from mmcredit.diagnostics.findings import Cell, Findings, Row, Section
from mmcredit.evaluation.statistics import Bootstrap, Estimate
from mmcredit.functional import world
from mmcredit.types import UserError


class Exposure:
    """Positive-credit exposure of runs.

    Args:
        runs: name -> run folder of ``mmcredit.fit``; M_eff is relative to the first.
        steps: length of the window.
        resume: begin the window at each run's last checkpoint; False: at its start.
        bootstrap: over the steps of the window.
        replay: ``mmcredit.replay.replay``: (run folder, steps, resume) -> exposure of each step.

    Raises:
        UserError: no runs, a folder that is none, or an empty window.
    """

    needs_bank = False

    def __init__(
        self,
        runs: Mapping[str, str] | None,
        bootstrap: Bootstrap,
        replay: Callable[[Path, int, bool], list[StepExposure]],
        steps: int = 20,
        resume: bool = True,
    ) -> None:
        if not runs or steps < 1:
            raise UserError(
                f"diagnostic.runs={runs} must name run folders, e.g. 'diagnostic.runs={{grpo: runs/a, dapo: runs/b}}', "
                f"and diagnostic.steps={steps} be at least 1"
            )
        self.bootstrap, self.replay, self.steps, self.resume = bootstrap, replay, steps, resume
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
        found = {name: self.replay(folder, self.steps, self.resume) for name, folder in self.runs.items()}
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


def _mean(steps: Sequence[StepExposure], key: str, resampler: Resampler) -> Draws:
    values = np.full(resampler.clusters, np.nan)
    values[: len(steps)] = [getattr(step, key) for step in steps]
    return resampler.mean(values)


def _known(value: float) -> Estimate:
    return Estimate(value, None, value, value)
