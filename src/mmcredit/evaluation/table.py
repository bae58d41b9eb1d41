"""What is scored: questions and the grades of their sampled responses.

Suffixes: Q questions, K sampled responses of a question, U units of a metric (questions, figures, problems), C
clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mmcredit.types import UserError


@dataclass(frozen=True, slots=True)
class Question:
    """One row of a benchmark, without its pictures.

    Example: ``Question("7", "Which is larger?", "B", {"A": "left", "B": "right", "task": "size"})``
    """

    id: str
    question: str
    answer: str  # gold
    meta: Mapping[str, str] = field(default_factory=dict)  # other columns; options under their letters; family

    def fields(self, *names: str) -> tuple[str, ...]:
        """Values of these columns.

        Raises:
            UserError: the row lacks one.
        """
        if lacking := [name for name in names if name not in self.meta]:
            raise UserError(
                f"question {self.id!r} has no field {lacking[0]!r}, which this benchmark's metrics need; "
                f"it has: {', '.join(sorted(self.meta)) or 'none'}"
            )
        return tuple(self.meta[name] for name in names)


@dataclass(frozen=True, slots=True)
class Grade:
    """What a scorer says of one response."""

    correct: bool
    answer: str | None  # as it was read; None: none was found


@dataclass(frozen=True, slots=True)
class Table:
    """Grades of K responses to each of Q questions."""

    questions: tuple[Question, ...]
    grades: tuple[tuple[Grade, ...], ...]  # [Q][K]
    cluster_Q: np.ndarray  # int, 0..C-1: questions that are drawn together

    @property
    def correct_QK(self) -> np.ndarray:
        """Bool."""
        return np.array([[grade.correct for grade in row] for row in self.grades])

    def groups(self, *names: str) -> Iterator[tuple[tuple[str, ...], list[int]]]:
        """Places of the questions that agree in these columns, in order of their first one."""
        found: dict[tuple[str, ...], list[int]] = {}
        for place, question in enumerate(self.questions):
            found.setdefault(question.fields(*names), []).append(place)
        yield from found.items()


def clusters(questions: Sequence[Question], names: Sequence[str]) -> np.ndarray:
    """[Q] int cluster of each question: those that agree in the named columns; each its own where a row lacks one."""
    known: dict[tuple[str, ...], int] = {}
    keys = [tuple(q.meta[n] for n in names) if names and all(n in q.meta for n in names) else ("", q.id)
            for q in questions]  # fmt: skip
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A metric: sum of ``top`` over its units by sum of ``bottom``, for each repetition.

    A metric of the K responses together (pass@k) has one column.
    """

    name: str
    top_UK: np.ndarray  # float
    bottom_UK: np.ndarray  # float
    cluster_U: np.ndarray  # int

    @property
    def value_K(self) -> np.ndarray:
        """The metric of each repetition; nan where nothing is counted."""
        with np.errstate(invalid="ignore"):
            return self.top_UK.sum(0) / self.bottom_UK.sum(0)


def share(name: str, value_UK: np.ndarray, cluster_U: np.ndarray) -> Ratio:
    """Mean of a value over units."""
    return Ratio(name, value_UK.astype(float), np.ones(value_UK.shape), cluster_U)
