"""Graders: from a response to a grade. The right ones; those of the official kits are in ``evaluation.kits``.

Every answer is looked for in the same order: the last ``\\boxed{}``, the last ``Final answer:`` line, a sentence that
names it (``the answer is B``), then the response as a whole, and only if it leaves no doubt.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from mmcredit.evaluation.table import Grade, Question
from mmcredit.reward.extract import final_answer
from mmcredit.reward.verifier import Verifier, as_number, normalise

_SAID = re.compile(r"(?:answer|option|choice)\s*(?:is|are|:|=)?\s*\**\s*\(?([A-Z])\b\)?(?!['’\w])")
_NAMED = re.compile(r"answer\s+(?:is|=)\s*:?\s*([^\n]+)", re.IGNORECASE)
_LEAD = re.compile(r"[\s*(\[]*([A-Za-z])[\s*)\]]*(?:[.:)](?:\s.*)?)?", re.DOTALL)
_LETTERS = re.compile(r"[A-Z](?:\s*(?:,|and|&|;|\s)\s*[A-Z])*|[A-Z]{1,10}")
_NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,18})?(?:\.\d{1,18})?(?!\d)(?:\s*/\s*\d{1,18})?")
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_DIGITS = re.compile(r"\d{1,9}")
_QUOTED = re.compile(r"[{\"'`](\w)[}\"'`]")
_THINKING = re.compile(r"^.*</think>", re.DOTALL)
COUNTED = {  # number words beyond the verifier's
    "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19,
    "twenty": 20,
}  # fmt: skip


class Grader(Protocol):
    """Reads a response."""

    def __call__(self, question: Question, response: str) -> Grade:
        """The grade. Never raises because of what a model said."""


def options_of(question: Question) -> dict[str, str]:
    """Letter -> text of the options: columns A, B, ... up to the first that is not there, or ``choices``, one a line."""
    columns = itertools.takewhile(str.strip, (question.meta.get(letter, "") for letter in string.ascii_uppercase))
    texts = list(columns) or question.meta.get("choices", "").split("\n")
    return {letter: text.strip() for letter, text in zip(string.ascii_uppercase, texts, strict=False) if text.strip()}


def said(response: str) -> str | None:
    """The part of a response that is given as the answer: box, or final-answer line."""
    span = final_answer(response)
    return response[slice(*span)] if span else None


def conclusion(response: str) -> str:
    """What follows the thinking."""
    return _THINKING.sub("", response).strip()


@dataclass(frozen=True)
class Free:
    """An answer of any kind, compared by the verifier.

    Args:
        verifier: compares.
        whole: a response that is one line of at most 60 characters is its own answer.
    """

    verifier: Verifier
    whole: bool = True

    def __call__(self, question: Question, response: str) -> Grade:
        text, rest = said(response), conclusion(response)
        if text is None and (named := _NAMED.findall(rest)):
            text = named[-1].strip(" .*$")
        if text is None and self.whole and rest and "\n" not in rest and len(rest) <= 60:
            text = rest
        return Grade(text is not None and self.verifier.matches(question.answer, text), text)


@dataclass(frozen=True)
class Choice:
    """One option: its letter or its text.

    Args:
        gold: column with the right letter (or text); null: the answer.
        letters: the options there may be where a question lists none.
    """

    gold: str | None = None
    letters: str = "ABCDEFGHIJ"

    def __call__(self, question: Question, response: str) -> Grade:
        options = options_of(question)
        right = self._letter(question.meta.get(self.gold, "") if self.gold else question.answer, options)
        given = self._read(response, options)
        return Grade(right is not None and given == right, given)

    def _read(self, response: str, options: Mapping[str, str]) -> str | None:
        if (text := said(response)) is not None:
            return self._letter(text, options)
        rest = conclusion(response)
        if (letters := _SAID.findall(rest)) and letters[-1] in (options or self.letters):
            return letters[-1]
        if named := _NAMED.findall(rest):
            return self._letter(named[-1].strip(" .*"), options)
        return self._letter(rest, options) if len(rest) <= 200 else None

    def _letter(self, text: str, options: Mapping[str, str]) -> str | None:
        """The option that a short text is: ``B``, ``(b)``, ``B. left``, ``left``."""
        wanted = normalise(text)
        same = [letter for letter, option in options.items() if normalise(option) == wanted]
        if len(same) == 1:
            return same[0]
        found = _LEAD.fullmatch(wanted)
        letter = found[1].upper() if found else ""
        return letter if letter and letter in (options or self.letters) else None


@dataclass(frozen=True)
class Letters:
    """A set of options (LogicVista: ``A, D``); all and only the right ones."""

    def __call__(self, question: Question, response: str) -> Grade:
        right, rest = _set(question.answer), conclusion(response)
        text = said(response)
        if text is None and (named := _NAMED.findall(rest)):
            text = named[-1].strip(" .*")
        given = _set(rest if text is None else text)
        return Grade(bool(given) and given == right, ", ".join(sorted(given)) or None)


def _set(text: str) -> set[str]:
    bare = re.sub(r"\\text(?:bf)?|[(){}\[\]*$.]", " ", text).strip()
    bare = bare.upper() if len(bare) == 1 else bare
    return set(re.findall("[A-Z]", bare)) if _LETTERS.fullmatch(bare) and " AND " not in f" {bare} " else set()


@dataclass(frozen=True)
class YesNo:
    """Yes or no, said in the answer, as the first word, or as the only one of the two."""

    def __call__(self, question: Question, response: str) -> Grade:
        text = said(response)
        words = [w.casefold() for w in _WORD.findall(conclusion(response) if text is None else text)]
        present = [w for w in ("yes", "no") if w in words]
        given = words[0] if words and words[0] in present else present[0] if len(present) == 1 else None
        return Grade(given is not None and given == normalise(question.answer), given)


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


def number(text: str) -> Fraction | None:
    """The last number of a text; a number word counts where there are no digits."""
    plain = text.replace("{,}", ",")
    digits = [as_number(m[0].replace("−", "-").replace(" ", "").replace(",", "")) for m in _NUMBER.finditer(plain)]
    words = [COUNTED.get(word.casefold(), as_number(word.casefold())) for word in _WORD.findall(plain)]
    found = [v for v in digits if v is not None] or [v for v in words if v is not None]
    return Fraction(found[-1]) if found else None


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
    """The number that stands closest to a name, after it (``rows={4}``) or before it (``4 rows``); of several the last."""
    found = re.findall(rf"{name}s?[\s=:({{]{{0,4}}(\d{{1,9}})|(\d{{1,9}})\s{{1,3}}{name}", text, re.IGNORECASE)
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


@dataclass(frozen=True)
class ByField:
    """Another grader by the value of a column.

    Args:
        column: which.
        graders: value -> grader.
        otherwise: for other values.
    """

    column: str
    graders: Mapping[str, Grader]
    otherwise: Grader

    def __call__(self, question: Question, response: str) -> Grade:
        grader = self.graders.get(question.meta.get(self.column, ""), self.otherwise)
        return grader(question, response)


@dataclass(frozen=True)
class Mixed:
    """One grader for questions with options, another for those without."""

    choice: Grader
    free: Grader

    def __call__(self, question: Question, response: str) -> Grade:
        return (self.choice if options_of(question) else self.free)(question, response)
