"""Answers as words and as letters of options."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from mmcredit.data.answers.choices import LETTERS
from mmcredit.data.answers.numerals import in_words
from mmcredit.data.answers.reading import Reading

_ARTICLE = re.compile(r"^\W*(?:an?|the)\s+(?=\w\w)")


def option_letters(reading: Reading) -> str:
    """Option letters in alphabetical order: ``A, C``, ``ac``, ``A and C``; empty for anything else."""
    found = "".join(re.findall(r"[A-Za-z]+", re.sub(r"\band\b", "", reading.text, flags=re.IGNORECASE))).upper()
    plain = not re.search(r"[^A-Za-z\s,;&/().]", reading.text)
    single = all(len(word) == 1 for word in re.findall(r"[A-Za-z]+", reading.text) if word != "and")
    compact = re.fullmatch(r"[A-J]{2,10}|[a-j]{2,10}", reading.text) and [*found] == sorted(found)
    valid = set(found) <= set(LETTERS) and len(set(found)) == len(found)
    return "".join(sorted(found)) if plain and valid and (single or compact) else ""


@lru_cache(maxsize=2**14)
def words(text: str) -> list[str]:
    """Words without case, punctuation and a leading article (``a, b`` are options), numbers in digits; a number keeps
    its minus sign."""
    found = re.findall(r"(?<!\w)-(?=[\d.\\])|\w+", _ARTICLE.sub("", text.casefold()))
    numbers = [in_words(word) for word in found]
    return [str(n) if isinstance(n, Fraction) else word for n, word in zip(numbers, found, strict=True)]
