"""A place among the symbols of a formula."""

from __future__ import annotations

from collections.abc import Sequence

from mmcredit.data.answers.tokens import NoFormula, Token

DEEPEST = 48  # nested groups, powers, signs
_END = Token("end of text", "", 0, 0)


class Cursor:
    """Symbols, the next of them, and how deep the reader is."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0

    def peek(self) -> Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else _END

    def take(self, kind: str = "") -> Token:
        token = self.peek()
        if token is _END or (kind and token.kind != kind):
            raise NoFormula(f"{kind or 'more'} is missing")
        self.at += 1
        return token

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise NoFormula("nested too deeply")
