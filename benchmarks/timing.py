"""Interleaved repetitions, and ratios pair by pair."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

Seconds = dict[str, float]  # by stage
WHOLE = ("step", "data", "rollout", "old_logp", "credit", "update")  # stages of a step, without their parts


def interleave(calls: Mapping[str, Callable[[], Seconds]], repetitions: int) -> dict[str, list[Seconds]]:
    """Every call once to warm up, then A B A B; what each call measured, repetition by repetition."""
    for call in calls.values():
        call()
    found: dict[str, list[Seconds]] = {name: [] for name in calls}
    for _ in range(repetitions):
        for name, call in calls.items():
            found[name].append(call())
    return found


def clocked(call: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def middle(runs: Sequence[Seconds], stage: str) -> float:
    """Median seconds of a stage over the repetitions."""
    return median(run[stage] for run in runs)


def stages(runs: Sequence[Seconds], names: Sequence[str] = WHOLE) -> dict[str, float]:
    """Median milliseconds of these stages, as columns; 0 for one that did not run."""
    return {f"{stage}_ms": 1000 * median(run.get(stage, 0.0) for run in runs) for stage in names}


def ratio(above: Sequence[float], below: Sequence[float], name: str = "ratio") -> dict[str, float]:
    """Median, smallest and largest ratio of neighbours in time, as columns."""
    pairs = [a / b for a, b in zip(above, below, strict=True)]
    return {name: median(pairs), f"{name}_min": min(pairs), f"{name}_max": max(pairs)}
