"""What is asked of the model around the question: the instruction, and the pattern of a well-formed response."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Template:
    """A prompt template.

    Args:
        instruction: text before the question; empty for none.
        pattern: regular expression that a well-formed response matches as a whole (dot matches newline).
    """

    instruction: str
    pattern: str

    def render(self, question: str) -> str:
        """The text of the user's turn."""
        return f"{self.instruction}\n{question}" if self.instruction else question

    def around(self, parts: Sequence[str | int]) -> list[str | int]:
        """The user's turn of texts and pictures: pictures before the question stay before the instruction, too; a
        question with pictures between its words follows the instruction as a whole."""
        *lead, last = parts
        if isinstance(last, str) and all(isinstance(part, int) for part in lead):
            return [*lead, self.render(last)]
        first, *rest = parts
        if isinstance(first, str):
            return [self.render(first), *rest]
        return [self.render(""), *parts] if self.instruction else list(parts)

    def well_formed(self, response: str) -> bool:
        """Whether the response keeps to the pattern."""
        return re.fullmatch(self.pattern, response.strip(), re.DOTALL) is not None
