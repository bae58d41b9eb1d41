"""Statistics over seeds: few numbers, small-sample formulas. Suffix N: runs of one arm."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mmcredit.types import UserError

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation (n - 1); the latter is None for one value."""

    n: int
    mean: float
    std: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean difference with its 95 % interval and two-sided p value; None where too few values tell nothing."""

    n: int  # values, pairs for a paired difference, of the smaller arm else
    mean: float
    interval: tuple[float, float] | None
    p: float | None


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    return Spread(len(values), statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Difference | None:
    """first - second over the seeds that both have, Student's t with n - 1 degrees of freedom; None without any.

    Differences that are all equal show no spread: they get neither interval nor p value.
    """
    differences = [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]
    if not differences:
        return None
    n, mean = len(differences), statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(n) if n > 1 else 0.0
    if not error:
        return Difference(n, mean, None, None)
    half = float(_student().ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    return Difference(n, mean, (mean - half, mean + half), 2 * float(_student().sf(abs(mean) / error, n - 1)))


def welch(first_N: Sequence[float], second_N: Sequence[float]) -> Difference:
    """mean(first) - mean(second) of independent runs, variances not assumed equal; neither interval nor p value where
    no variance is seen.

    Degrees of freedom: Welch and Satterthwaite's (https://doi.org/10.1093/biomet/34.1-2.28).
    """
    n, mean = min(len(first_N), len(second_N)), statistics.fmean(first_N) - statistics.fmean(second_N)
    if n < 2:
        return Difference(n, mean, None, None)
    parts = [statistics.variance(values) / len(values) for values in (first_N, second_N)]
    if not (error := math.sqrt(sum(parts))):
        return Difference(n, mean, None, None)
    squares = (part**2 / (len(values) - 1) for part, values in zip(parts, (first_N, second_N), strict=True))
    freedom = sum(parts) ** 2 / sum(squares)
    half = float(_student().ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return Difference(n, mean, (mean - half, mean + half), 2 * float(_student().sf(abs(mean) / error, freedom)))


def _student() -> Any:
    """The t distribution.

    Raises:
        UserError: scipy is not installed.
    """
    try:
        from scipy import stats
    except ImportError:
        raise UserError("mmcredit.report needs scipy: pip install 'mmcredit[report]'") from None
    return stats.t
