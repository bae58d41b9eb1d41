"""Metrics of a table of grades. Those that are not linear are computed for each repetition, then averaged.

Suffixes as in ``evaluation.table``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mmcredit.evaluation.statistics import all_of, majority, pass_at
from mmcredit.evaluation.table import Ratio, Table, share
from mmcredit.types import UserError

SEVERAL = "\n"  # between the values of a column that holds several (skills)


class Metric(Protocol):
    """Numbers that come of a table."""

    def __call__(self, table: Table) -> list[Ratio]:
        """One or more named ratios."""


@dataclass(frozen=True)
class Accuracy:
    """Share of right responses (mean@K), of all questions and by the values of columns.

    Args:
        name: of the metric; a part's is ``<name>/<column>=<value>``.
        by: columns; one with several values counts to each of them. A column that no row has is left out.
        macro: a column whose parts count the same in ``<name>_macro``: a question weighs 1 / (parts x its part's size);
            null: none.
    """

    name: str = "accuracy"
    by: Sequence[str] = ()
    macro: str | None = None

    def __call__(self, table: Table) -> list[Ratio]:
        correct_QK = table.correct_QK
        found = [share(self.name, correct_QK, table.cluster_Q)]
        for column in self.by:
            found += [
                share(f"{self.name}/{column}={value}", correct_QK[places], table.cluster_Q[places])
                for value, places in _parts(table, column).items()
            ]
        if self.macro and (parts := _parts(table, self.macro)):
            weight_Q = np.zeros((len(table.questions), 1))
            for places in parts.values():
                weight_Q[places] += 1 / (len(parts) * len(places))
            weight_QK = np.broadcast_to(weight_Q, correct_QK.shape)
            found.append(Ratio(f"{self.name}_macro", correct_QK * weight_QK, weight_QK, table.cluster_Q))
        return found


def _parts(table: Table, column: str) -> dict[str, list[int]]:
    """Places of the questions by value of a column, in order of the values."""
    parts: dict[str, list[int]] = {}
    for place, question in enumerate(table.questions):
        for value in filter(None, question.meta.get(column, "").split(SEVERAL)):
            parts.setdefault(value, []).append(place)
    return dict(sorted(parts.items()))


@dataclass(frozen=True)
class AllRight:
    """Share of groups of questions that are all right: circular, worst case, by figure.

    Args:
        name: of the metric.
        keys: columns in which a group's questions agree.
        without: column -> value of rows that are left out.
    """

    name: str
    keys: Sequence[str]
    without: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, table: Table) -> list[Ratio]:
        correct_QK = table.correct_QK
        groups = [[p for p in places if not self._left_out(table, p)] for _, places in table.groups(*self.keys)]
        groups = [places for places in groups if places]
        if not groups:
            return []
        right_UK = np.stack([correct_QK[places].all(0) for places in groups])
        return [share(self.name, right_UK, table.cluster_Q[[places[0] for places in groups]])]

    def _left_out(self, table: Table, place: int) -> bool:
        meta = table.questions[place].meta
        return bool(self.without) and all(meta.get(column) == value for column, value in self.without.items())


@dataclass(frozen=True)
class OverSamples:
    """pass@k and worst@k (at least one, all of k responses right; unbiased) and maj@K, of K responses to a question.

    Args:
        at: values of k; those above K are left out.
    """

    at: Sequence[int] = (1, 2, 4, 8, 16, 32)

    def __call__(self, table: Table) -> list[Ratio]:
        right_Q = table.correct_QK.sum(1)
        n = table.correct_QK.shape[1]
        found = []
        for name, estimate in (("pass", pass_at), ("worst", all_of)):
            for k in (k for k in self.at if 1 < k <= n):
                value_Q = np.array([estimate(k, n, int(right)) for right in right_Q])
                found.append(share(f"{name}@{k}", value_Q[:, None], table.cluster_Q))
        if n > 1:
            value_Q = np.array([majority(row) for row in table.grades])
            found.append(share(f"maj@{n}", value_Q[:, None], table.cluster_Q))
        return found


@dataclass(frozen=True)
class WeMath:
    """Four kinds of understanding, from composite problems and the steps they are made of (arXiv 2407.01284).

    Insufficient knowledge: a step and the problem are wrong. Inadequate generalization: steps right, problem wrong.
    Complete mastery: problem right with all steps (strict), with any step (loose). Rote memorization: problem right
    with a wrong step (strict), with all steps wrong (loose). Score: 1 - IK - .5 IG - RM. ``rm_rate``: RM / (RM + CM).

    Args:
        problem: column that a problem and its steps share.
        part: column that says which one a row is: ``2steps_1``, ``2steps_2``, ``2steps_multi``, ``3steps_1``, ...
    """

    problem: str = "ID"
    part: str = "key"

    def __call__(self, table: Table) -> list[Ratio]:
        correct_QK = table.correct_QK
        all_UK, any_UK, whole_UK, first = [], [], [], []
        for (problem,), places in table.groups(self.problem):
            parts = {table.questions[p].fields(self.part)[0].rpartition("_")[2]: p for p in places}
            steps = [place for part, place in parts.items() if part != "multi"]
            if len(parts) != len(places) or "multi" not in parts or len(steps) < 2:
                raise UserError(f"problem {problem!r} of We-Math must have steps _1, _2, ... and one _multi, once each")
            all_UK.append(correct_QK[steps].all(0))
            any_UK.append(correct_QK[steps].any(0))
            whole_UK.append(correct_QK[parts["multi"]])
            first.append(places[0])
        every, some, whole = np.stack(all_UK), np.stack(any_UK), np.stack(whole_UK)
        cluster_U = table.cluster_Q[first]
        ik, ig = ~every & ~whole, every & ~whole
        found = []
        for kind, mastered in (("strict", every & whole), ("loose", some & whole)):
            rote = whole & ~mastered
            found += [
                share(f"score_{kind}", 1 - ik - 0.5 * ig - rote, cluster_U),
                share(f"complete_mastery_{kind}", mastered, cluster_U),
                share(f"rote_memorization_{kind}", rote, cluster_U),
                Ratio(f"rm_rate_{kind}", rote.astype(float), whole.astype(float), cluster_U),
            ]
        return [
            *found,
            share("insufficient_knowledge", ik, cluster_U),
            share("inadequate_generalization", ig, cluster_U),
        ]
