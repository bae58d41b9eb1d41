"""What a preparation looks at and keeps."""

from __future__ import annotations

from dataclasses import dataclass

from mmcredit.types import UserError


@dataclass(frozen=True)
class Limits:
    """What is looked at and kept.

    Args:
        candidates: samples of the source that are looked at, in an order drawn by the seed; null for all.
        per_domain: most samples of a question family; null for all.
        min_relevance: smallest relevance of a question to its picture, 0..1.
        min_accuracy, max_accuracy: bounds of the share of right responses, both allowed.
        best_of: right candidates that are compared for the reference; null for all. Of fewer comes a weaker reference,
            which is beaten more often.

    Raises:
        UserError: a value out of its range.
    """

    candidates: int | None = None
    per_domain: int | None = None
    min_relevance: float = 0.5
    min_accuracy: float = 1 / 8
    max_accuracy: float = 7 / 8
    best_of: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.min_accuracy <= self.max_accuracy <= 1 or not 0 <= self.min_relevance <= 1:
            raise UserError(
                f"job.limits: 0 <= min_accuracy={self.min_accuracy} <= max_accuracy={self.max_accuracy} <= 1 and "
                f"0 <= min_relevance={self.min_relevance} <= 1 are needed"
            )
        counts = {"candidates": self.candidates, "per_domain": self.per_domain, "best_of": self.best_of}
        for name, count in counts.items():
            if count is not None and count < 1:
                raise UserError(f"job.limits.{name}={count} must be at least 1 or null")
