"""Statistics over sampled responses and over questions. Suffixes as in ``evaluation.table``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

from mmcredit.evaluation.table import Grade, Ratio
from mmcredit.functional import stable_seed
from mmcredit.types import UserError

CHUNK = 250  # replicates at a time: bounds memory


def pass_at(k: int, n: int, right: int) -> float:
    """Unbiased estimate of the chance that at least one of k responses is right: 1 - C(n - right, k) / C(n, k).

    Chen et al. 2021, https://arxiv.org/abs/2107.03374v2, Eq. (1). Exact integers, so that no n overflows.
    """
    return 1 - comb(n - right, k) / comb(n, k)


def all_of(k: int, n: int, right: int) -> float:
    """Unbiased estimate of the chance that all of k responses are right: C(right, k) / C(n, k)."""
    return comb(right, k) / comb(n, k)


def majority(grades: Sequence[Grade]) -> float:
    """Whether the most frequent answer is right: its share of right responses, mean over answers that tie.

    Responses without an answer do not vote; without any vote it is wrong.
    """
    votes: dict[str, list[bool]] = {}
    for grade in grades:
        if grade.answer is not None:
            votes.setdefault(" ".join(grade.answer.casefold().split()), []).append(grade.correct)
    most = max(map(len, votes.values()), default=0)
    leading = [float(np.mean(given)) for given in votes.values() if len(given) == most]
    return float(np.mean(leading)) if leading else 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric with what is known of its error."""

    value: float  # mean over repetitions
    std: float | None  # sample standard deviation of the repetitions' values; None: of one
    low: float  # percentile interval of the cluster bootstrap
    high: float


@dataclass(frozen=True)
class Bootstrap:
    """Percentile intervals from resampled clusters of questions; all metrics share the draws.

    Args:
        replicates: number of resamples.
        level: mass of the interval.
        seed: of the draws.

    Raises:
        UserError: a value out of its range.
    """

    replicates: int = 10_000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if self.replicates < 1 or not 0 < self.level < 1:
            raise UserError(
                f"bootstrap.replicates={self.replicates} must be at least 1 and bootstrap.level={self.level} in (0, 1)"
            )

    def __call__(self, ratios: Sequence[Ratio]) -> dict[str, Estimate]:
        """An estimate of each metric, by name."""
        count = max(int(ratio.cluster_U.max()) for ratio in ratios) + 1
        sums = [_by_cluster(ratio, count) for ratio in ratios]
        rng = np.random.default_rng(stable_seed(self.seed, "cluster bootstrap"))
        drawn = np.concatenate([_replicates(rng, size, sums, count) for size in self._chunks()], axis=1)
        tail = (1 - self.level) / 2 * 100
        found = {}
        for ratio, values in zip(ratios, drawn, strict=True):
            value_K, kept = ratio.value_K, values[~np.isnan(values)]
            std = float(value_K.std(ddof=1)) if len(value_K) > 1 else None
            low, high = np.percentile(kept, [tail, 100 - tail]) if len(kept) else (np.nan, np.nan)
            found[ratio.name] = Estimate(float(_mean(value_K)), std, float(low), float(high))
        return found

    def _chunks(self) -> list[int]:
        return [min(CHUNK, self.replicates - start) for start in range(0, self.replicates, CHUNK)]


def _by_cluster(ratio: Ratio, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums [C, K] of top and bottom."""
    parts = []
    for values in (ratio.top_UK, ratio.bottom_UK):
        sums = np.zeros((count, values.shape[1]))
        np.add.at(sums, ratio.cluster_U, values)
        parts.append(sums)
    return parts[0], parts[1]


def _replicates(
    rng: np.random.Generator, size: int, sums: Sequence[tuple[np.ndarray, np.ndarray]], count: int
) -> np.ndarray:
    """[metrics, size] values under resampled clusters, mean over repetitions."""
    weight_RC = rng.multinomial(count, np.full(count, 1 / count), size=size).astype(float)
    values = []
    for top_CK, bottom_CK in sums:
        with np.errstate(invalid="ignore"):
            values.append(_mean((weight_RC @ top_CK) / (weight_RC @ bottom_CK)))
    return np.stack(values)


def _mean(value_RK: np.ndarray) -> np.ndarray:
    """[R] mean over the repetitions in which something is counted; nan where there is none."""
    known = ~np.isnan(value_RK)
    with np.errstate(invalid="ignore"):
        return np.where(known, value_RK, 0).sum(-1) / known.sum(-1)
