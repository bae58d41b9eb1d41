"""What is asked of the model around the question: the instruction, and the pattern of a well-formed response."""

from __future__ import annotations

import re
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

    def well_formed(self, response: str) -> bool:
        """Whether the response keeps to the pattern."""
        return re.fullmatch(self.pattern, response.strip(), re.DOTALL) is not None
