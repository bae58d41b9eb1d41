"""VLMEvalKit's matching of options (``can_infer``), of yes and no, and what rests on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mmcredit.evaluation.reading import options_of
from mmcredit.evaluation.table import Grade, Question

_REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
_VERBOSE = re.compile(r"(?i)(?:correct\s+)?answer\s+is\s+\**([ABCD])\**")
_SPACES = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_PUNCTUATION = r""";/[]"{}()=+\_->$<@`,?!""".replace("$", "")


_NAN = {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
        "NULL", "NaN", "None", "n/a", "nan", "null"}  # fmt: skip


def kit_options(question: Question) -> dict[str, str]:
    """Options as pandas reads them by default: a text like ``None`` or ``NA`` is no option."""
    return {letter: text for letter, text in options_of(question).items() if text not in _NAN}


def can_infer(response: str, choices: Mapping[str, str]) -> str | None:
    """The option that a response is taken for; ``Z``: a refusal; None: no telling."""
    return _option(response, choices) or _text(response, choices)


def _option(response: str, choices: Mapping[str, str]) -> str | None:
    if any(refusal in response for refusal in _REFUSALS):
        return "Z"
    words = response.translate(_SPACES).split()
    named = [letter for letter in choices if letter in words]
    if len(named) == 1 and words.index(named[0]) > len(words) - 5:
        return named[0]
    if not named and "Z" in words:
        return "Z"
    match = _VERBOSE.search(response)
    return match[1].upper() if match and match[1].upper() in choices else None


def _text(response: str, choices: Mapping[str, str]) -> str | None:
    given = response.lower()
    if len(given) > 2 * sum(len(text) for text in choices.values()):
        return None
    found = [letter for letter, text in choices.items() if text.lower() in given]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class KitChoice:
    """``can_infer`` under exact matching: what it cannot read is wrong.

    Args:
        gold: column with the right letter; null: the answer.
    """

    gold: str | None = None

    def __call__(self, question: Question, response: str) -> Grade:
        given = can_infer(response, kit_options(question))
        right = question.meta.get(self.gold) if self.gold else question.answer
        return Grade(given is not None and given == right, given)


@dataclass(frozen=True)
class KitOpen:
    """MMMU's open questions as multiple choice: A is the answer, B is ``Other Answers``."""

    def __call__(self, question: Question, response: str) -> Grade:
        given = can_infer(response, {"A": question.answer, "B": "Other Answers"})
        return Grade(given == "A", given)


@dataclass(frozen=True)
class KitYesNo:
    """The one of ``yes`` and ``no`` that stands in the response as a word; both or none is wrong."""

    def __call__(self, question: Question, response: str) -> Grade:
        words = without_punctuation(response.lower()).split()
        present = [word for word in ("Yes", "No") if word.lower() in words]
        given = present[0] if len(present) == 1 else None
        return Grade(given is not None and given == question.answer, given)


def without_punctuation(text: str) -> str:
    """As in VQA's normalisation: removed where it touches a space or where the text has a thousands comma, else
    replaced by a space."""
    thousands = re.search(r"\d,\d", text) is not None
    out = text
    for mark in _PUNCTUATION:
        out = out.replace(mark, "" if thousands or f"{mark} " in text or f" {mark}" in text else " ")
    return re.sub(r"(?<!\d)\.(?!\d)", "", out, count=int(re.UNICODE))


@dataclass(frozen=True)
class KitAfterAnswer:
    """We-Math: the first character after the last ``Answer``, if it is a letter A to H."""

    def __call__(self, question: Question, response: str) -> Grade:
        rest = re.sub(r"[><:.]", "", response.rpartition("Answer")[2].strip()).strip()
        given = rest[0] if rest and rest[0] in "ABCDEFGH" else None
        return Grade(given is not None and given == question.answer, given)


@dataclass(frozen=True)
class KitLetters:
    """LogicVista: capital letters alone (what its judge must say), the same set as the gold's."""

    def __call__(self, question: Question, response: str) -> Grade:
        if not (response.isupper() and response.isalpha()):
            return Grade(False, None)
        right = "".join(sorted(letter.lower() for letter in question.answer.split(", ")))
        given = "".join(sorted(response.lower()))
        return Grade(given == right, given)
