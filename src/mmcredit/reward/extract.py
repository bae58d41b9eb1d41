"""Where the final answer stands in a response."""

from __future__ import annotations

import re

from mmcredit.types import Span

_BOX = re.compile(r"\\boxed\s*\{")
_LINE = re.compile(r"^[ \t]*(?:final )?answer[ \t]*[:\uff1a][ \t]*(\S[^\n]*)", re.IGNORECASE | re.MULTILINE)
_ENDING = " \t\r.,;\u3002"  # of a line
MAX_ANSWER = 512  # characters


def final_answer(text: str) -> Span | None:
    """Character span of the final answer: the last complete ``\\boxed{...}``, else the last ``Final answer:`` line.

    Empty, unclosed and overlong answers are none. Linear time; a ``Final answer: \\boxed{7}`` line gives ``7``, and
    punctuation that ends a line is no part of the answer: ``Final answer: 7.`` gives ``7``, too.
    """
    spans = [span for span in (_closing(text, m.end()) for m in _BOX.finditer(text)) if span]
    if spans:
        return _trim(text, spans[-1])
    lines = list(_LINE.finditer(text))
    if not lines or "\\boxed" in lines[-1][1]:
        return None
    start, end = lines[-1].span(1)
    return _trim(text, (start, start + len(text[start:end].rstrip(_ENDING))))


def _closing(text: str, start: int) -> Span | None:
    """From an opening brace to the one that closes it, escaped braces skipped."""
    depth, i = 1, start
    while i < min(len(text), start + MAX_ANSWER + 1):
        if text[i] == "\\":
            i += 2
            continue
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return start, i
        i += 1
    return None


def _trim(text: str, span: Span) -> Span | None:
    inner = text[span[0] : span[1]]
    start = span[0] + len(inner) - len(inner.lstrip())
    end = start + len(inner.strip())
    return (start, end) if 0 < end - start <= MAX_ANSWER else None
