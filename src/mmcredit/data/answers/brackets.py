"""Which bracket closes which."""

from __future__ import annotations

import re

from mmcredit.data.answers.tokens import NoFormula

_BRACKETS = re.compile(r"\\\\|\\[{}]|\\(?:lang|rang)le(?![A-Za-z])|[()\[\]{}]")
_CLOSERS = {"(": (")", "]"), "[": ("]", ")"), "{": ("}",), "\\{": ("\\}",), "\\langle": ("\\rangle",)}


class Brackets:
    """The brackets of a text, those of half-open intervals among them.

    Raises:
        NoFormula: they do not match.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.depths = [0] * len(text)  # of each character; a bracket counts as inside
        self.end: re.Match[str] | None = None  # the bracket that closes one at the beginning
        self.first = _BRACKETS.match(text)
        self._scan()

    def _scan(self) -> None:
        stack: list[re.Match[str]] = []
        at = 0
        for m in _BRACKETS.finditer(self.text):
            opens, inside = m[0] in _CLOSERS, len(stack)
            self.depths[at : m.end()] = [inside] * (m.start() - at) + [inside + opens] * len(m[0])
            at = m.end()
            if opens:
                stack.append(m)
            elif m[0] != "\\\\":
                if not stack or m[0] not in _CLOSERS[stack[-1][0]]:
                    raise NoFormula("brackets do not match")
                if stack.pop().start() == 0:
                    self.end = m
        if stack:
            raise NoFormula("a bracket is open")

    def around(self) -> tuple[str, str, str]:
        """Brackets around the whole and what they hold; empty where there are none."""
        first, end = self.first, self.end
        if first is None or end is None or end.end() != len(self.text):
            return "", "", ""
        return first[0], end[0], self.text[first.end() : end.start()]

    def split(self, separator: re.Pattern[str], keep: bool = False) -> list[str]:
        """Parts between separators that stand in no brackets; ``keep``: with the separators between them."""
        parts, at = [], 0
        for m in separator.finditer(self.text):
            if self.depths[m.start()] == 0:
                parts += [self.text[at : m.start()], m[0]] if keep else [self.text[at : m.start()]]
                at = m.end()
        return [*parts, self.text[at:]]
