"""Pictures of estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # without pyplot: no window, no state

from mmcredit.evaluation.statistics import Estimate

SIZE = (6.4, 3.8)  # inches


def bars(series: Mapping[str, Mapping[str, Estimate]], label: str, reference: float | None = None) -> Figure:
    """A group of bars a name, one of each series (a checkpoint), with intervals.

    Args:
        series: checkpoint -> name -> estimate.
        label: of the axis of values.
        reference: where a line is drawn.
    """
    figure, axes = _axes(label)
    names = list(dict.fromkeys(name for values in series.values() for name in values))
    width = 0.8 / max(len(series), 1)
    for i, (who, values) in enumerate(series.items()):
        places = [names.index(name) + (i - (len(series) - 1) / 2) * width for name in values]
        heights, spread = _spread(list(values.values()))
        axes.bar(places, heights, width, yerr=spread, capsize=2, label=who, error_kw={"lw": 0.8})
    axes.set_xticks(
        range(len(names)), names, rotation=30 if len(names) > 4 else 0, ha="right" if len(names) > 4 else "center"
    )
    axes.axhline(0.0 if reference is None else reference, color="black", lw=0.8, ls="-" if reference is None else "--")
    _legend(axes, len(series))
    return figure


def lines(series: Mapping[str, Sequence[Estimate]], names: Sequence[str], label: str) -> Figure:
    """A line a quantity over ordered names (checkpoints, bins), with intervals."""
    figure, axes = _axes(label)
    for who, values in series.items():
        heights, spread = _spread(values)
        axes.errorbar(range(len(names)), heights, yerr=spread, marker="o", capsize=2, label=who)
    axes.set_xticks(range(len(names)), names)
    axes.axhline(0, color="black", lw=0.6)
    _legend(axes, len(series))
    return figure


def points(x: Mapping[str, Estimate], y: Mapping[str, Estimate], x_label: str, y_label: str) -> Figure:
    """A point a checkpoint, with intervals both ways."""
    figure, axes = _axes(y_label)
    axes.set_xlabel(x_label)
    for who in x:
        across, up = ([[max(e.value - e.low, 0)], [max(e.high - e.value, 0)]] for e in (x[who], y[who]))
        axes.errorbar(x[who].value, y[who].value, xerr=across, yerr=up, marker="o", ls="", capsize=2, label=who)
    _legend(axes, len(x))
    return figure


def histogram(series: Mapping[str, np.ndarray], label: str) -> Figure:
    """Shares of values in common bins."""
    figure, axes = _axes("share")
    axes.set_xlabel(label)
    values = np.concatenate([*series.values(), np.zeros(1)])
    edges = np.linspace(values.min(), max(np.quantile(values, 0.99), values.min() + 1e-6), 41)
    for who, found in series.items():
        shares = np.histogram(np.clip(found, edges[0], edges[-1]), edges)[0] / max(len(found), 1)
        axes.stairs(shares, edges, label=who)
    axes.set_yscale("log")
    _legend(axes, len(series))
    return figure


def _axes(label: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=SIZE)
    axes = figure.subplots()
    axes.set_ylabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _spread(values: Sequence[Estimate]) -> tuple[list[float], np.ndarray]:
    """Heights, and the parts of the intervals below and above; 0 where they are not known."""
    below = [max(np.nan_to_num(e.value - e.low), 0) for e in values]
    above = [max(np.nan_to_num(e.high - e.value), 0) for e in values]
    return [e.value for e in values], np.array([below, above])


def _legend(axes: Axes, count: int) -> None:
    if count > 1:
        axes.legend(frameon=False, fontsize=8)
