"""What a source makes of a row before its pictures are decoded, and how it finds its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmcredit.data.gate import BadRow, Gate
from mmcredit.types import UserError

Roles = Mapping[str, tuple[str, ...]]  # field -> names of its column, the preferred one first
LEADING = re.compile(r"\A(?:\s*<image>)+\s*(?!.*<image>)", re.DOTALL)  # markers that all stand before the question


class LeftOut(BadRow):
    """A row that a setting leaves out: counted, never an error."""


class RowGate(Gate):
    """A gate that counts what is left out by choice under ``raise``, too."""

    def drop(self, place: object, problem: BadRow) -> None:
        if isinstance(problem, LeftOut):
            self.report.dropped[problem.reason] += 1
        else:
            super().drop(place, problem)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row as the corpus means it: text as it stands there, pictures as cells that are still encoded."""

    question: str
    answer: str
    images: tuple[Any, ...] = ()
    family: str = ""
    boxes: Mapping[str, Any] = field(default_factory=dict)  # ``Box`` fields of ``Sample``, on the first picture
    meta: Mapping[str, str | None] = field(default_factory=dict)  # None: absent


@dataclass(frozen=True, slots=True)
class Place:
    """Where an admitted sample stands."""

    row: int
    turn: int
    id: str
    question: str
    sizes: tuple[tuple[int, int], ...] = ()  # width and height of its pictures, pixels


def columns(found: Sequence[str], roles: Roles, required: Sequence[str], source: str) -> dict[str, str]:
    """Which column holds which field.

    Args:
        required: fields that must have a column; ``a|b`` needs one of them.

    Raises:
        UserError: a required field has none (the columns that were found, the names that are known).
    """
    names = {role: next((name for name in known if name in found), None) for role, known in roles.items()}
    for wanted in required:
        if not any(names.get(role) for role in wanted.split("|")):
            known = ", ".join(name for role in wanted.split("|") for name in roles[role])
            raise UserError(
                f"{source}: no column for the {wanted.replace('|', ' or ')}; known names are {known}; "
                f"found are {', '.join(found)}"
            )
    return {role: name for role, name in names.items() if name}


def choose(name: str, value: str, known: Sequence[str]) -> None:
    """Raises ``UserError`` if a setting has none of the known values."""
    if value not in known:
        raise UserError(f"{name} {value!r} must be one of {', '.join(known)}")
