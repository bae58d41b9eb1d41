"""Comparing a final answer with the gold answer: numbers, option letters, words.

The door for other verifiers: anything with ``matches(gold, answer)``.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Protocol

_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")
_LETTER = re.compile(r"\(?([a-j])(?:\)|[.:](?:\s.*)?)?", re.DOTALL)
_FORMULA = re.compile(r"[\\^_=<>+*/|()\[\]{}]")
_ARTICLE = re.compile(r"^\W*(?:an?|the)\s+(?=\w\w)")
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:e[-+]?\d{1,3})?")
_FRACTION = re.compile(r"([-+]?\d{1,18})\s*/\s*(\d{1,18})")


class Verifier(Protocol):
    """What the reward needs of a verifier."""

    def matches(self, gold: str, answer: str) -> bool:
        """Whether the answer is right. Never raises."""


class WordVerifier:
    """Numbers by exact value, single letters as options, words without case and punctuation, formulas as written."""

    def matches(self, gold: str, answer: str) -> bool:
        wanted, given = normalise(gold), normalise(answer)
        if not wanted or not given:
            return False
        if wanted == given:
            return True
        number = as_number(wanted)
        if number is not None:
            return number == as_number(given)
        if letter := _LETTER.fullmatch(wanted):
            other = _LETTER.fullmatch(given)
            return other is not None and other[1] == letter[1]
        if _FORMULA.search(wanted):
            return wanted.replace(" ", "") == given.replace(" ", "")
        return bool(words(wanted)) and words(wanted) == words(given)


def normalise(text: str) -> str:
    """Lower case, one space, no dollar signs, LaTeX text wrappers or final full stop."""
    text = _WRAPPED.sub(r"\1", text.strip().replace("−", "-").replace("$", ""))
    return " ".join(text.casefold().split()).rstrip(". ")


def as_number(text: str) -> Fraction | None:
    """Exact value of a numeral, a simple fraction or a number word up to twelve."""
    if text in _WORDS:
        return Fraction(_WORDS.index(text))
    if m := _FRACTION.fullmatch(text):
        return Fraction(int(m[1]), int(m[2])) if int(m[2]) else None
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Fraction(Decimal(text.replace(",", "")))
    except (InvalidOperation, ValueError):
        return None


def words(text: str) -> list[str]:
    """Words without punctuation and a leading article (``a, b`` are options); a number keeps its minus sign."""
    return re.findall(r"(?<!\w)-(?=[\d.\\])|\w+", _ARTICLE.sub("", text))
