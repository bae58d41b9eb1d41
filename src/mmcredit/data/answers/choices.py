"""The options of a multiple-choice question."""

from __future__ import annotations

import re
from functools import lru_cache

from mmcredit.types import Sample

LETTERS = "ABCDEFGHIJ"
_STYLES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"[(（\[【]([A-J])[)）\]】][.:：]?[ \t]*",
        r"(?<![A-Za-z0-9(（])([A-J])[)）][ \t]*",
        r"(?<![A-Za-z0-9(（])([A-J])[.．、][ \t]*(?=\S)",
        r"(?<![A-Za-z0-9(（])([A-J])[:：][ \t]*(?=\S)",
        r"^[ \t]*([A-J])[ \t]+(?=\S)",
    )
)
_LABELLED = re.compile(r"\s*[(（\[]?([A-J])[)）\].:：．、]\s*(\S.*)", re.DOTALL)


@lru_cache(maxsize=4096)
def choices(question: str) -> tuple[str, ...]:
    """Texts of the options A, B, ... that a question lists (``A. / (A) / A: / A)``), at most ten; empty without any."""
    found = max((_listed(question, style) for style in _STYLES), key=len)
    return found if len(found) > 1 else ()


def _listed(question: str, style: re.Pattern[str]) -> tuple[str, ...]:
    """The last list of this style that begins with A and leaves no letter out."""
    run: list[re.Match[str]] = []
    best: list[re.Match[str]] = []
    for mark in style.finditer(question):
        if mark[1] == "A":
            run = []
        if mark[1] == LETTERS[len(run) : len(run) + 1]:
            run.append(mark)
            best = list(run) if len(run) > 1 else best
    if not best:
        return ()
    ends = [mark.start() for mark in best[1:]] + [len(question)]
    texts = [question[mark.end() : end] for mark, end in zip(best, ends, strict=True)]
    texts[-1:] = [text.strip().split("\n")[0] for text in texts[-1:]]
    return tuple(text.strip(" \t\r\n,;，；、") for text in texts)


def options(sample: Sample) -> tuple[str, ...]:
    """Options of a sample: ``meta["choices"]``, one a line with or without its letter, else those in its question."""
    given = sample.meta.get("choices")
    if given is None:
        return choices(sample.question)
    lines = [line.strip() for line in given.splitlines() if line.strip()]
    labelled = [_LABELLED.fullmatch(line) for line in lines]
    if all(m and m[1] == letter for m, letter in zip(labelled, LETTERS, strict=False)):
        return tuple(m[2].strip() for m in labelled if m)
    return tuple(lines)
