"""Small tables of grades, written as digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmcredit.evaluation.metrics import Metric
from mmcredit.evaluation.table import Grade, Question, Table, clusters


def made(rows: Sequence[tuple[str, Mapping[str, Any]]], cluster: Sequence[str] = ()) -> Table:
    """A table from each question's grades (``"101"``: right, wrong, right) and columns."""
    questions = tuple(
        Question(str(i), "?", "x", {k: str(v) for k, v in meta.items()}) for i, (_, meta) in enumerate(rows)
    )
    grades = tuple(tuple(Grade(c == "1", c) for c in right) for right, _ in rows)
    return Table(questions, grades, clusters(questions, cluster))


def values(metric: Metric, table: Table) -> dict[str, list[float]]:
    """Of each repetition."""
    return {ratio.name: [round(float(v), 12) for v in ratio.value_K] for ratio in metric(table)}
