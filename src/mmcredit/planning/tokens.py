"""Tokens of a step by stage, and the floating-point operations behind them."""

from __future__ import annotations

from dataclasses import dataclass

from mmcredit.planning.architecture import Architecture


@dataclass(frozen=True)
class Load:
    """One step's work. Responses are counted at their longest."""

    prompts: int  # B
    group: int  # G
    new_tokens: int  # T
    prompt_tokens: int  # P: text, and pictures
    views: int  # passes of the methods, beside the old log-probs
    reference: bool
    engine_scores: bool  # the old log-probs come with the sample
    epochs: int = 1

    @property
    def packed(self) -> int:
        """Tokens of all rows with shared prompts."""
        return self.prompts * (self.prompt_tokens + self.group * self.new_tokens)

    @property
    def padded(self) -> int:
        """The same with a row a response."""
        return self.prompts * self.group * (self.prompt_tokens + self.new_tokens)

    def stages(self) -> dict[str, int]:
        """Tokens that go through the model, by stage; the backward pass counts twice."""
        return {
            "prefill": self.prompts * self.prompt_tokens,
            "decode": self.prompts * self.group * self.new_tokens,
            "old log-probs": 0 if self.engine_scores else self.packed,
            "methods": self.views * self.packed,
            "reference": self.packed if self.reference else 0,
            "update": 3 * self.epochs * self.packed,
        }


def petaflop(tokens: int, model: Architecture) -> float:
    """Forward pass: two operations a parameter and token, attention left out."""
    return 2 * tokens * (model.language + model.vocabulary * model.hidden) / 1e15
