"""Views: under which weights, prompt and image a rollout is scored, and which tokens. All are hashable values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from mmcredit.scoring.edits import ImageEdit, Original


class Weights(Enum):
    """Whose log-probs."""

    OLD = "old"  # the policy that sampled
    REFERENCE = "reference"  # frozen initial policy
    TEACHER = "teacher"  # periodic hard copy of the policy


class Scored(Enum):
    """Which tokens."""

    RESPONSE = "response"
    ANSWER = "answer"  # tokens of the final answer, conditioned on the generated prefix


@dataclass(frozen=True, slots=True)
class Hints:
    """A line after each response's question; None leaves the response out."""

    lines: tuple[tuple[str | None, ...], ...]  # [B][G]


@dataclass(frozen=True, slots=True)
class View:
    """How to score: ``View()`` is the rollout's own conditions."""

    weights: Weights = Weights.OLD
    image: ImageEdit = field(default_factory=Original)
    scored: Scored = Scored.RESPONSE
    hints: Hints | None = None

    @property
    def name(self) -> str:
        """Short label for logs."""
        image = "" if self.image == Original() else type(self.image).__name__.lower()
        return "_".join(filter(None, (self.weights.value, "hint" if self.hints else "", image)))
