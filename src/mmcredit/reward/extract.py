"""Where the final answer stands in a response."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mmcredit.types import Span, UserError

_BRACE = re.compile(r"\\(boxed|fbox)\s*\{|\\(?=\\(?:boxed|fbox))|\\.|[{}]", re.DOTALL)
_BRACELESS = re.compile(r"\\boxed\s*([^\s{}\\$.,;]+)")
_LINE = re.compile(r"^[ \t#>*]*(?:final )?answer[ \t*]*[:\uff1a][ \t*]*(\S[^\n]*)", re.IGNORECASE | re.MULTILINE)
_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])[-+\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?%?(?![\w])")
_ENDING = " \t\r.,;*\u3002"  # of a line
MAX_ANSWER = 512  # characters


def final_answer(text: str) -> Span | None:
    """Character span of the final answer: the last complete ``\\boxed{...}``, else the last ``Final answer:`` line.

    Empty, unclosed and overlong answers are none. Linear time; a ``Final answer: \\boxed{7}`` line gives ``7``, and
    punctuation that ends a line and emphasis are no part of the answer: ``**Final answer:** 7.`` gives ``7``, too.
    """
    return Extractor()(text)


@dataclass(frozen=True)
class Extractor:
    """Finds the final answer: the last complete box, else what ``fallback`` finds.

    Args:
        fallback: where there is no complete box: ``final_answer_line`` (the last line ``Final answer:`` or
            ``Answer:``), ``answer_tag`` (the last ``<answer>...</answer>``), ``last_number``, ``off``.
        fbox: ``\\fbox{7}`` is a box, too.
        braceless: ``\\boxed 7`` is a box, too, where there is none with braces.

    Raises:
        UserError: an unknown fallback.
    """

    fallback: str = "final_answer_line"
    fbox: bool = False
    braceless: bool = False

    def __post_init__(self) -> None:
        if self.fallback not in _FALLBACKS:
            raise UserError(f"reward.extract.fallback={self.fallback!r} must be one of {', '.join(_FALLBACKS)}")

    def __call__(self, text: str) -> Span | None:
        """Character span of the answer; None where there is none, it is empty, or longer than 512 characters."""
        if (box := _last_box(text, ("boxed", "fbox") if self.fbox else ("boxed",))) is not None:
            return _trim(text, box)
        if self.braceless and (bare := list(_BRACELESS.finditer(text))):
            return _trim(text, bare[-1].span(1))
        return _FALLBACKS[self.fallback](text)


def _last_box(text: str, names: tuple[str, ...]) -> Span | None:
    """The contents of the complete box that begins last; escaped braces open and close nothing. One pass."""
    best: Span | None = None
    stack: list[tuple[bool, int]] = []  # of open braces: whether a box, where its contents begin
    for m in _BRACE.finditer(text):
        if m[0][-1] == "{" and m[0] != "\\{":
            stack.append((m[1] in names, m.end()))
        elif m[0] == "}" and stack:
            is_box, start = stack.pop()
            if is_box and m.start() - start <= MAX_ANSWER and (best is None or start > best[0]):
                best = start, m.start()
    return best


def _line(text: str) -> Span | None:
    lines = list(_LINE.finditer(text))
    if not lines or "\\boxed" in lines[-1][1]:
        return None
    start, end = lines[-1].span(1)
    return _trim(text, (start, start + len(text[start:end].rstrip(_ENDING))))


def _tag(text: str) -> Span | None:
    """The contents of the last complete pair of tags."""
    opened, found = -1, None
    for m in _TAG.finditer(text):
        if not m[1]:
            opened = m.end()
        elif opened >= 0:
            found, opened = (opened, m.start()), -1
    return None if found is None else _trim(text, found)


def _last_number(text: str) -> Span | None:
    numbers = list(_NUMBER.finditer(text))
    return numbers[-1].span() if numbers and len(numbers[-1][0]) <= MAX_ANSWER else None


def _off(_: str) -> Span | None:
    return None


_FALLBACKS: dict[str, Callable[[str], Span | None]] = {
    "final_answer_line": _line,
    "answer_tag": _tag,
    "last_number": _last_number,
    "off": _off,
}


def _trim(text: str, span: Span) -> Span | None:
    inner = text[span[0] : span[1]]
    start = span[0] + len(inner) - len(inner.lstrip())
    end = start + len(inner.strip())
    return (start, end) if 0 < end - start <= MAX_ANSWER else None
