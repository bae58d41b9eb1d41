"""VLMEvalKit's comparisons of strings, braces and short answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from mmcredit.evaluation.table import Grade, Question

_ROWS = re.compile(r"[Rr]ows?(?:[^{}]*)\{(\d+)\}")
_COLUMNS = re.compile(r"[Cc]olumns?(?:[^{}]*)\{(\d+)\}")
_PAIR = re.compile(r"\((\d+),\s*(\d+)\)")


@dataclass(frozen=True)
class KitSubstring:
    """The gold occurs in the response (CountBenchQA, VLMsAreBlind): ``1`` is found in ``10``.

    Args:
        fold: without regard to case.
    """

    fold: bool = False

    def __call__(self, question: Question, response: str) -> Grade:
        gold, given = (question.answer.lower(), response.lower()) if self.fold else (question.answer, response)
        return Grade(gold in given, response)


@dataclass(frozen=True)
class KitExact:
    """The response is the gold, spaces around aside (MathVerse, MathVision before their judges)."""

    fold: bool = False

    def __call__(self, question: Question, response: str) -> Grade:
        gold, given = question.answer.strip(), response.strip()
        return Grade(gold.lower() == given.lower() if self.fold else gold == given, given)


@dataclass(frozen=True)
class KitBraces:
    """VLMsAreBlind: what stands in the first braces is the gold, character by character."""

    def __call__(self, question: Question, response: str) -> Grade:
        match = re.search(r"\{(.*?)\}", response)
        given = match[1] if match else ""
        return Grade(given == question.answer, given)


@dataclass(frozen=True)
class KitRowsColumns:
    """VLMsAreBlind: ``rows={3} columns={4}``, or else the first ``(3, 4)``."""

    def __call__(self, question: Question, response: str) -> Grade:
        rows, columns, pair = _ROWS.search(response), _COLUMNS.search(response), _PAIR.search(response)
        given = (rows[1], columns[1]) if rows and columns else pair.groups() if pair else None
        right = [part.strip() for part in question.answer.split(",")]
        if given is None or len(right) != 2 or not all(re.fullmatch(r"[-+]?\d{1,9}", part) for part in right):
            return Grade(False, None)
        return Grade([int(n[:18]) for n in given] == [int(n) for n in right], ",".join(given))


@dataclass(frozen=True)
class KitScalar:
    """MathVista without its judge: the response as a whole through Python's ``int`` or ``float``, compared exactly.

    Args:
        kind: ``int``, ``float``, or ``str``: the kit compares the word ``None`` there.
    """

    kind: str

    def __call__(self, question: Question, response: str) -> Grade:
        try:
            given = _SCALARS[self.kind](response)
            right = question.answer if self.kind == "str" else _SCALARS[self.kind](question.answer)
        except (ValueError, OverflowError):
            return Grade(False, None)
        return Grade(given == right, str(given)[:100])


_SCALARS: dict[str, Callable[[str], object]] = {"int": int, "float": float, "str": lambda _: "None"}


@dataclass(frozen=True)
class KitDynaMath:
    """The ``short answer`` of the outermost JSON object, or else the response itself; by ``answer_type``:
    ``float`` within .001 (its first word; ``2π`` is read), ``multiple choice`` the only letter A to E in it, other text
    if the *gold contains it* (an empty answer does)."""

    def __call__(self, question: Question, response: str) -> Grade:
        kind = question.meta.get("answer_type", "")
        body = _outer(response)
        given = _parsed(_short_answer(body), kind)
        if given is None:
            given = _parsed(body, kind)
        gold = question.answer
        if kind == "float":
            try:
                near = given is not None and abs(float(given) - float(gold)) <= 0.001
            except ValueError:
                near = False
            return Grade(near, given)
        if kind == "multiple choice":
            return Grade(given == gold if given is not None else gold in body[:3].upper(), given)
        return Grade(given is not None and given.lower() in gold.lower(), given)


def _outer(text: str) -> str:
    start, end = text.find("{"), text.rfind("}")
    inside = text[start : end + 1] if 0 <= start < end else text
    return inside.replace("\\", "")


def _short_answer(body: str) -> str | None:
    try:
        value = json.loads(body, strict=False)["short answer"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _parsed(text: str | None, kind: str) -> str | None:
    if text is None:
        return None
    if kind == "float":
        first = text if text.isdigit() else text.split(" ")[0]
        times, factor = (first.split("π")[0], math.pi) if "π" in first else (first, 1.0)
        try:
            return str(float(times) * factor)
        except ValueError:
            return None
    if kind != "multiple choice":
        return text
    found = [letter for letter in "ABCDE" if letter in text.upper()]
    return text.upper() if len(text) == 1 else found[0] if len(found) == 1 else None
