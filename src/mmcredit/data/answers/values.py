"""What an answer says, once it is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from mmcredit.data.answers.nodes import Node
from mmcredit.data.answers.units import Unit


class Kind(StrEnum):
    """What a gold answer is, and so how answers are compared with it."""

    LETTER = "letter"  # of an option
    LETTERS = "letters"  # of several options
    YES_NO = "yes_no"
    NUMBER = "number"  # without variables; with a unit or percent sign, perhaps
    EXPRESSION = "expression"  # with variables
    LIST = "list"
    TUPLE = "tuple"
    INTERVAL = "interval"
    SET = "set"
    UNION = "union"
    MATRIX = "matrix"
    EQUATION = "equation"
    INEQUALITY = "inequality"
    RATIO = "ratio"
    PARTS = "parts"  # (1) ... (2) ...
    TEXT = "text"
    FORMULA = "formula"  # outside of the grammar: compared as written
    UNPARSABLE = "unparsable"  # empty, not a number, broken: nothing may be compared with it


@dataclass(frozen=True, slots=True)
class Quantity:
    """A formula, with what is measured."""

    node: Node
    unit: Unit | None = None
    percent: bool = False
    places: int | None = None  # decimal places, where it is written as a plain decimal


@dataclass(frozen=True, slots=True)
class Items:
    """Several values: ``opening`` and ``closing`` are brackets (``{`` a set), or empty for a bare list."""

    items: tuple[Value, ...]
    opening: str = ""
    closing: str = ""
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Union:
    """Intervals and sets, joined, or inequalities, joined by *or*."""

    parts: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of cells."""

    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """``terms[0] signs[0] terms[1] ...`` with signs ``=``, ``<``, ``<=``, ``>``, ``>=``, ``!=``.

    ``rounded`` is the place of the first term behind a sign of approximation, 0 without one."""

    terms: tuple[Quantity, ...]
    signs: tuple[str, ...]
    rounded: int = 0


@dataclass(frozen=True, slots=True)
class Ratio:
    """``2:3:4``; ``clock``: written like hours and minutes, ``3:05``, in the ``half`` a or p of the day."""

    parts: tuple[Quantity, ...]
    clock: bool = False
    half: str = ""


Value: TypeAlias = Quantity | Items | Union | Matrix | Relation | Ratio
