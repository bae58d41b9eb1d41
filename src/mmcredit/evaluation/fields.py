"""Columns that a benchmark's metrics need, made from those that its file has."""

from __future__ import annotations

import ast
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mmcredit.evaluation.metrics import SEVERAL
from mmcredit.evaluation.table import Question
from mmcredit.types import UserError


class Field(Protocol):
    """Adds columns to a question."""

    def __call__(self, question: Question) -> Question:
        """The question with further columns."""


@dataclass(frozen=True)
class Split:
    """Pieces of an identifier: HallusionBench keeps set, figure and question in its index.

    Args:
        column: what is split; ``id`` where no row has it.
        by: separator.
        into: new column -> place of the piece, 0-based. Columns that are there already are kept.
    """

    column: str
    by: str
    into: Mapping[str, int]

    def __call__(self, question: Question) -> Question:
        pieces = question.meta.get(self.column, question.id).split(self.by)
        if len(pieces) <= max(self.into.values()):
            raise UserError(f"{self.column} {self.by.join(pieces)!r} has not the pieces of a name of this benchmark")
        return _with(question, {name: pieces[place] for name, place in self.into.items()})


@dataclass(frozen=True)
class Modulo:
    """The group of a circular question: index modulo 1,000,000, unless the file names it."""

    column: str = "index"
    into: str = "g_index"
    by: int = 1_000_000

    def __call__(self, question: Question) -> Question:
        text = question.meta.get(self.column, question.id)
        if self.into in question.meta:
            return question
        if not text.strip().isdecimal():
            raise UserError(f"{self.column} {text!r} of a circular benchmark must be a whole number")
        return _with(question, {self.into: str(int(text) % self.by)})


@dataclass(frozen=True)
class Several:
    """A column with a list in Python's or JSON's notation, or a text with separators, as one value a line.

    Args:
        column: which; a question without it is left as it is.
        by: separator of a plain text.
    """

    column: str
    by: str = ","

    def __call__(self, question: Question) -> Question:
        if self.column not in question.meta:
            return question
        text = question.meta[self.column]
        value = literal(text)
        values = value if isinstance(value, list | tuple) else text.split(self.by)
        joined = SEVERAL.join(str(v).strip() for v in values)
        return replace(question, meta={**question.meta, self.column: joined})


@dataclass(frozen=True)
class Inside:
    """Entries of a column that holds a dictionary (MathVerse's metadata)."""

    column: str
    names: Sequence[str]

    def __call__(self, question: Question) -> Question:
        value = literal(question.meta.get(self.column, ""))
        found = value if isinstance(value, dict) else {}
        return _with(question, {name: str(found[name]) for name in self.names if name in found})


@dataclass(frozen=True)
class Choices:
    """Options under their letters, from a column with a list."""

    column: str = "choices"

    def __call__(self, question: Question) -> Question:
        value = literal(question.meta.get(self.column, ""))
        options = value if isinstance(value, list | tuple) else ()
        return _with(question, {letter: str(o) for letter, o in zip(string.ascii_uppercase, options, strict=False)})


def literal(text: str) -> Any:
    """The value of a list or dictionary in Python's notation; None where it is none. Nothing is evaluated."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _with(question: Question, columns: Mapping[str, str]) -> Question:
    return replace(question, meta={**columns, **question.meta})
