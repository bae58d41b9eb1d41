"""Where a response says its answer, and what short texts mean.

Graders look in the same order: the last ``\\boxed{}``, the last ``Final answer:`` line, a sentence that names it (``the
answer is B``), then the response as a whole, and only if it leaves no doubt.
"""

from __future__ import annotations

import re
import string
from fractions import Fraction

from mmcredit.evaluation.table import Question
from mmcredit.reward.extract import final_answer

_NAMED = re.compile(r"answer\s+(?:is|=)\s*:?\s*([^\n]+)", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![\w.])([-+−]?)((?:\d{1,3}(?:,\d{3}){1,6}|\d{1,18})?(?:\.\d{1,18})?)(?!\d)(?:\s*/\s*(\d{1,18}))?"
)
_THINKING = re.compile(r"^.*</think>", re.DOTALL)
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")
_WORDS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
          "seventeen eighteen nineteen twenty")  # fmt: skip
_COUNTED = {word: value for value, word in enumerate(_WORDS.split())}


def options_of(question: Question) -> dict[str, str]:
    """Letter -> text of the options: columns A, B, ..., or ``choices``, one a line."""
    named = {letter: question.meta.get(letter, "").strip() for letter in string.ascii_uppercase}
    if not any(named.values()):
        named = dict(zip(string.ascii_uppercase, question.meta.get("choices", "").split("\n"), strict=False))
    return {letter: text.strip() for letter, text in named.items() if text.strip()}


def said(response: str) -> str | None:
    """The part of a response that is given as the answer: box, or final-answer line."""
    span = final_answer(response)
    return response[slice(*span)] if span else None


def named(response: str) -> str | None:
    """What the last ``answer is ...`` of a response names."""
    found = _NAMED.findall(response)
    return found[-1].strip(" .*$") if found else None


def conclusion(response: str) -> str:
    """What follows the thinking."""
    return _THINKING.sub("", response).strip()


def normalise(text: str) -> str:
    """Lower case, one space, no dollar signs, LaTeX text wrappers or final full stop."""
    return " ".join(_WRAPPED.sub(r"\1", text.replace("$", "")).casefold().split()).rstrip(". ")


def number(text: str) -> Fraction | None:
    """The last number of a text; a number word up to twenty counts where there are no digits."""
    digits = [_value(*m.groups()) for m in _NUMBER.finditer(text.replace("{,}", ",")) if m[2]]
    found = [v for v in digits if v is not None] or [
        Fraction(_COUNTED[word.casefold()]) for word in _WORD.findall(text) if word.casefold() in _COUNTED
    ]
    return found[-1] if found else None


def _value(sign: str, digits: str, below: str | None) -> Fraction | None:
    value = Fraction(digits.replace(",", "")) * (-1 if sign in ("-", "−") else 1)
    if below is None:
        return value
    return value / int(below) if int(below) else None
