"""Answers that are numbers or single characters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from mmcredit.evaluation.reading import conclusion, number, said
from mmcredit.evaluation.table import Grade, Question

_DIGITS = re.compile(r"\d{1,9}")
_QUOTED = re.compile(r"[{\"'`](\w)[}\"'`]")


@dataclass(frozen=True)
class Number:
    """A number: in the answer, or the last one of the response; thousands, simple fractions and words are read.

    Args:
        tolerance: largest difference that is right.
        gold: column with the right number; null: the answer.
    """

    tolerance: float = 0.0
    gold: str | None = None

    def __call__(self, question: Question, response: str) -> Grade:
        right = number(question.meta.get(self.gold, "") if self.gold else question.answer)
        text = said(response)
        given = number(conclusion(response) if text is None else text)
        near = right is not None and given is not None and abs(given - right) <= Fraction(str(self.tolerance))
        return Grade(near, None if given is None else str(given))


@dataclass(frozen=True)
class RowsColumns:
    """Two counts, named (``4 rows and 5 columns``, ``columns={5} rows={4}``) or else rows first (``(4, 5)``)."""

    def __call__(self, question: Question, response: str) -> Grade:
        text = said(response)
        text = conclusion(response) if text is None else text
        named = [_count(text, name) for name in ("row", "column")]
        found = named if None not in named else _DIGITS.findall(text)[-2:]
        right = _DIGITS.findall(question.answer)
        given = [int(n) for n in found if n is not None]
        return Grade(len(given) == 2 and given == [int(n) for n in right], ", ".join(map(str, given)) or None)


def _count(text: str, name: str) -> str | None:
    """The number after a name (``rows={4}``) or before it (``4 rows``); of several the last."""
    pattern = rf"{name}s?[\s=:({{]{{0,4}}(\d{{1,9}})|(\d{{1,9}})\s{{1,3}}{name}"
    found = re.findall(pattern, text, re.IGNORECASE)
    return next(filter(None, found[-1])) if found else None


@dataclass(frozen=True)
class Symbol:
    """One character (VLMsAreBlind's circled letter), also in braces or quotes; case counts for nothing."""

    def __call__(self, question: Question, response: str) -> Grade:
        text, rest = said(response), conclusion(response)
        found = [text] if text is not None else _QUOTED.findall(rest) or [rest]
        given = found[-1].strip(" {}\"'`*.").casefold()
        given = given if len(given) == 1 else ""
        return Grade(bool(given) and given == question.answer.strip().casefold(), given or None)
