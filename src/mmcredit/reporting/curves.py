"""Learning curves as SVG: a line an arm, its mean over seeds, and a band of one standard deviation."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from itertools import cycle

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mmcredit.reporting.arms import Arm
from mmcredit.reporting.colours import ARMS
from mmcredit.reporting.seed_statistics import Spread, spread

SHOWN = (
    "reward/total",
    "reward/accuracy",
    "reward/zero_variance_rate",
    "train/entropy",
    "train/grad_norm",
    "rollout/length",
)
COLUMNS, PANEL = 3, (4.2, 2.8)  # inches
LINES = ("-", "--", "-.", ":")


def learning_curve(arm: Arm, key: str) -> dict[int, Spread]:
    """Spread over the seeds that logged the key at a step, by step."""
    logged = [run.curves[key] for run in arm.runs.values() if key in run.curves]
    steps = sorted({step for curve in logged for step in curve})
    return {step: spread([curve[step] for curve in logged if step in curve]) for step in steps}


def figure(arms: Sequence[Arm], keys: Sequence[str]) -> str | None:
    """SVG of a panel for each key that any run logged; None if there is none. The same input gives the same bytes."""
    keys = [key for key in keys if any(learning_curve(arm, key) for arm in arms)]
    if not keys:
        return None
    rows = -(-len(keys) // COLUMNS)
    with matplotlib.rc_context({"svg.hashsalt": "mmcredit", "svg.fonttype": "none", "text.parse_math": False}):
        canvas = Figure((PANEL[0] * min(COLUMNS, len(keys)), PANEL[1] * rows + 0.4), layout="constrained")
        axes = canvas.subplots(rows, min(COLUMNS, len(keys)), squeeze=False).flat
        for place, key in zip(axes, keys, strict=False):
            _draw(place, arms, key)
        for place in list(axes)[len(keys) :]:
            place.set_axis_off()
        canvas.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
        file = io.StringIO()
        canvas.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _draw(axes: Axes, arms: Sequence[Arm], key: str) -> None:
    for arm, colour, line in zip(arms, cycle(ARMS), cycle(LINES)):
        curve = learning_curve(arm, key)
        steps, mean = list(curve), [found.mean for found in curve.values()]
        axes.plot(steps, mean, line, color=colour, label=f"{arm.name} (n={len(arm.runs)})", linewidth=1.5)
        stds = [found.std or 0.0 for found in curve.values()]
        low, high = ([m + sign * s for m, s in zip(mean, stds, strict=True)] for sign in (-1, 1))
        axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_title(key, fontsize=9)
    axes.set_xlabel("rollout step", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)


def svg_uri(svg: str) -> str:
    """An address that holds the drawing; scripts do not run in a picture."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
