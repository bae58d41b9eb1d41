"""Answers among a few: options, sets of options, yes or no."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mmcredit.evaluation.reading import conclusion, named, normalise, options_of, said
from mmcredit.evaluation.table import Grade, Question

_SAID = re.compile(r"(?:answer|option|choice)\s*(?:is|are|:|=)?\s*\**\s*\(?([A-Z])\b\)?(?!['’\w])")
_LEAD = re.compile(r"[\s*(\[]*([A-Za-z])[\s*)\]]*(?:[.:)](?:\s.*)?)?", re.DOTALL)
_LETTERS = re.compile(r"[A-Z](?:\s*(?:,|and|&|;|\s)\s*[A-Z])*|[A-Z]{1,10}")
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
MOST = 200  # characters of a response that is its own answer


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
        if (text := named(rest)) is not None:
            return self._letter(text, options)
        return self._letter(rest, options) if len(rest) <= MOST else None

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
        text = said(response) or named(rest)
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
