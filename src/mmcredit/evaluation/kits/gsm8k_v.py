"""VLMEvalKit's reading of GSM8K-V: patterns in turn; the first that gives a number wins, with its last match.

``FINAL ANSWER: 1,234`` gives 1 and ``FINAL ANSWER: $1,000.50`` gives 1 (the pattern without commas comes first), and
``\\boxed{42}`` is never read as such (its pattern is escaped twice).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from mmcredit.evaluation.table import Grade, Question

_PLAIN = r"(-?[0-9]+(?:\.[0-9]+)?(?:/[0-9]+)?)"
_COMMAS = r"(-?[0-9,]+(?:\.[0-9]+)?)"
_LABELS = (
    r"(?:FINAL\s+ANSWER|Final\s+Answer)\s*[:\-=]?\s*\$?\s*",
    r"####\s*",
    r"(?:The\s+)?(?:[Aa]nswer|result)\s+is\s*[:\-=]?\s*\$?\s*",
    r"答案\s*[:\-=]?\s*\$?\s*",
    r"(?:Therefore|Thus|Hence)[^.]*?[:\-=]?\s*\$?\s*",
)
_FINAL = [label + number for label in _LABELS for number in (_PLAIN, _COMMAS)]
_FINAL[3] = r"####\s*\$?\s*" + _COMMAS
_ALONE = [f"^{_PLAIN}$", f"^{_COMMAS}$", rf"^\$\s*{_COMMAS}$", rf"^{_PLAIN}\s*(?:dollars?|cents?)?$"]
_CONTEXT = [
    r"(?:answer|result|solution)\s*(?:is|=|:)?\s*\$?\s*" + _PLAIN,
    r"(?:answer|result|solution)\s*(?:is|=|:)?\s*\$?\s*" + _COMMAS,
    r"=\s*\$?\s*" + _PLAIN,
    r"=\s*\$?\s*" + _COMMAS,
    rf"makes?\s*\$?\s*{_COMMAS}\s*(?:dollars?)?",
    r"total\s*(?:of|is)?\s*\$?\s*" + _COMMAS,
    r"costs?\s*\$?\s*" + _COMMAS,
]


def kit_number(response: str) -> float | None:
    """The number that the kit reads."""
    return next((value for found in _candidates(response.strip()) if (value := _value(found)) is not None), None)


def _candidates(text: str) -> Iterator[str]:
    """The last match of each pattern, in the kit's order."""
    lines = text.split("\n")
    last = [line.strip() for line in reversed(lines)]
    yield from (m[-1] for p in _FINAL if (m := re.findall(p, text, re.IGNORECASE | re.MULTILINE)))
    yield from (alone[1] for line in last[:5] if line for p in _ALONE if (alone := re.match(p, line, re.IGNORECASE)))
    paragraph = re.split(r"\n\s*\n", text)[-1]
    yield from (m[-1] for p in _CONTEXT if (m := re.findall(p, paragraph, re.IGNORECASE)))
    yield from (m[-1] for line in last[:3] for p in (_PLAIN, _COMMAS) if (m := re.findall(p, line)))


def _value(text: str) -> float | None:
    bare = text.replace(",", "")
    if not re.fullmatch(r"-?[0-9]{1,300}(?:\.[0-9]+)?(?:/[0-9]{1,300})?", bare):
        return None
    try:
        return float(Fraction(bare)) if "/" in bare else float(bare)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


@dataclass(frozen=True)
class KitGsm8kV:
    """Within .001, or a relative 1e-6."""

    def __call__(self, question: Question, response: str) -> Grade:
        given = kit_number(response)
        try:
            right = float(question.answer)
        except ValueError:
            return Grade(False, None if given is None else str(given))
        if given is None:
            return Grade(False, None)
        error = abs(given - right)
        return Grade(error <= 1e-3 or error / max(abs(right), 1e-10) < 1e-6, str(given))
