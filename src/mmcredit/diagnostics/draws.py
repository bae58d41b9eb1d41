"""Quantities of a set of questions with their values under resampled questions: differences keep the pairing.

Suffixes: Q questions, N observations, R replicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmcredit.evaluation.statistics import Bootstrap, Estimate


@dataclass(frozen=True, slots=True)
class Draws:
    """A quantity, and its value in each replicate (nan where nothing is counted). All of one ``Resampler`` share the
    replicates, so their sums and differences do, too."""

    value: float
    drawn_R: np.ndarray

    def __sub__(self, other: Draws) -> Draws:
        return Draws(self.value - other.value, self.drawn_R - other.drawn_R)

    def __truediv__(self, other: Draws) -> Draws:
        bottom = np.array([other.value, *other.drawn_R])
        with np.errstate(divide="ignore", invalid="ignore"):
            value, *drawn = np.where(bottom != 0, np.array([self.value, *self.drawn_R]) / bottom, np.nan)
        return Draws(float(value), np.array(drawn))

    def __abs__(self) -> Draws:
        return Draws(abs(self.value), np.abs(self.drawn_R))


class Resampler:
    """Draws the same clusters for every quantity. PACG, appendix E.2: joint for all models.

    Args:
        bootstrap: replicates, seed, level.
        clusters: number of clusters of questions (or steps).
    """

    def __init__(self, bootstrap: Bootstrap, clusters: int) -> None:
        self.bootstrap, self.clusters = bootstrap, clusters
        self.weight_RC = np.concatenate([part.astype(np.uint16) for part in bootstrap.weights(clusters)])

    def ratio(self, top_Q: np.ndarray, bottom_Q: np.ndarray) -> Draws:
        """Sum of ``top`` by sum of ``bottom``."""
        whole, drawn_RM = self._sums(np.stack([top_Q, bottom_Q], 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            return Draws(float(whole[0] / whole[1]), drawn_RM[:, 0] / drawn_RM[:, 1])

    def mean(self, value_Q: np.ndarray) -> Draws:
        """Mean over questions; nan does not count. A single question says nothing of its spread: no interval."""
        found = self.ratio(np.nan_to_num(value_Q), known_Q := ~np.isnan(value_Q))
        return found if known_Q.sum() > 1 else Draws(found.value, np.full_like(found.drawn_R, np.nan))

    def correlation(self, question_N: np.ndarray, x_N: np.ndarray, y_N: np.ndarray) -> Draws:
        """Pearson's, over observations; questions are drawn with all of theirs. nan where one side does not vary."""
        x_N, y_N = x_N - x_N.mean() if len(x_N) else x_N, y_N - y_N.mean() if len(y_N) else y_N
        moments = np.stack([np.ones_like(x_N), x_N, y_N, x_N * x_N, y_N * y_N, x_N * y_N], 1)
        sums = np.zeros((self.clusters, 6))
        np.add.at(sums, question_N, moments)
        whole, drawn_RM = self._sums(sums)
        return Draws(float(_pearson(whole[None])[0]), _pearson(drawn_RM))

    def estimate(self, draws: Draws) -> Estimate:
        """With its percentile interval."""
        return Estimate(draws.value, None, *self.bootstrap.interval(draws.drawn_R))

    def _sums(self, value_QM: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums [M] of all, and [R, M] of each replicate."""
        return value_QM.sum(0, dtype=float), self.weight_RC @ value_QM.astype(float)


def _pearson(moments_RM: np.ndarray) -> np.ndarray:
    n, x, y, xx, yy, xy = moments_RM.T
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt((xx / n - (x / n) ** 2) * (yy / n - (y / n) ** 2))
        return np.where(spread > 1e-12, (xy / n - x * y / n**2) / spread, np.nan)


def means(rows: Sequence[Any], keys: Iterable[str], resampler: Resampler) -> dict[str, Draws]:
    """Each named number of the rows, one a response (``question``, ``response``): over responses, then questions."""
    question, response = (np.array([getattr(row, k) for row in rows], dtype=int) for k in ("question", "response"))
    return {
        key: resampler.mean(
            by_question(resampler.clusters, question, response, np.array([getattr(r, key) for r in rows], dtype=float))
        )
        for key in keys
    }


def by_question(count: int, question_N: np.ndarray, response_N: np.ndarray, value_N: np.ndarray) -> np.ndarray:
    """[Q] mean over the responses of a question of the mean over their observations; nan where there is none.

    Args:
        count: number of questions.
        response_N: place of the response among those of its question.
        value_N: nan does not count.
    """
    kept = ~np.isnan(value_N)
    keys = np.stack([question_N[kept], response_N[kept]], 1).astype(int).reshape(-1, 2)
    pairs, place = np.unique(keys, axis=0, return_inverse=True)
    of_response = _means(len(pairs), place.reshape(-1), value_N[kept])
    return _means(count, pairs[:, 0], of_response)


def _means(count: int, place_N: np.ndarray, value_N: np.ndarray) -> np.ndarray:
    sums, sizes = (np.bincount(place_N, weights=w, minlength=count) for w in (value_N, np.ones(len(value_N))))
    with np.errstate(invalid="ignore"):
        return sums / sizes
