"""Gold answers and difficulty as corpora write them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from mmcredit.data.gate import BadRow

_BOX = re.compile(r"\\boxed\s*\{")
_ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)


def unboxed(text: str) -> str:
    """The content of the box of a gold answer, one layer taken off; text without a box as it is.

    Raises:
        BadRow: the box is empty or not closed, or there are several.
    """
    found = list(_BOX.finditer(text))
    if not found:
        return text.strip()
    end = _closing(text, found[0].end())
    if end is None or not (inner := text[found[0].end() : end].strip()):
        raise BadRow("gold_box", f"the box of answer {text[:80]!r} is empty or not closed")
    if any(box.start() > end for box in found):
        raise BadRow("gold_box", f"answer {text[:80]!r} has several boxes")
    return inner


def _closing(text: str, start: int) -> int | None:
    """Place of the brace that closes the one before ``start``, escaped braces skipped."""
    depth, i = 1, start
    while i < len(text):
        if text[i] == "\\":
            i += 2
            continue
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return i
        i += 1
    return None


def undollared(text: str) -> str:
    """``$$6$$`` and ``$6$`` as ``6``, if the whole text is one formula."""
    text = text.strip()
    for mark in ("$$", "$"):
        inner = text.removeprefix(mark).removesuffix(mark)
        if len(text) == len(inner) + 2 * len(mark) and "$" not in inner:
            return inner.strip()
    return text


def answer_tag(text: str) -> str | None:
    """The content of the last ``<answer>`` tag."""
    found = _ANSWER_TAG.findall(text)
    return found[-1].strip() if found else None


def conclusion(text: str) -> str:
    """What follows the last ``</think>``, without answer tags."""
    return _ANSWER_TAG.sub(r"\1", text.rpartition("</think>")[2]).strip()


def rate(value: object) -> str | None:
    """A pass rate in 0..1 as text; None where it was not measured (absent, NaN, -1)."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return f"{number:g}" if math.isfinite(number) and 0 <= number <= 1 else None


def letter(value: object, choices: Sequence[str]) -> str | None:
    """``A`` .. of a choice given by its letter, its index or its text; None if it is none of the choices."""
    text = str(value).strip() if value is not None else ""
    names = [chr(ord("A") + i) for i in range(len(choices))]
    if text.upper() in names:
        return text.upper()
    if text in choices and list(choices).count(text) == 1:
        return names[list(choices).index(text)]
    return None
