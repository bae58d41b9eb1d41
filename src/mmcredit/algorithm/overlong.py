"""Overlong shaping (DAPO; METHODS section 0)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mmcredit.types import UserError


@dataclass(frozen=True)
class OverlongPenalty:
    """-min(max(length - (longest - buffer), 0) / buffer, 1) x factor, added to the reward right after grading.

    Args:
        longest: tokens at which the penalty is full, end token included.
        buffer: tokens over which it grows.
        factor: size of the full penalty; 0 is off.

    Raises:
        UserError: a value out of its range.
    """

    longest: int
    buffer: int
    factor: float

    def __post_init__(self) -> None:
        if self.buffer < 1 or self.factor < 0:
            raise UserError(
                f"algorithm.overlong: buffer={self.buffer} must be at least 1 and factor={self.factor} at least 0"
            )

    def __call__(self, mask_BGT: Tensor) -> Tensor:
        """[B, G] penalty, 0 or below."""
        excess = (mask_BGT.sum(-1) - (self.longest - self.buffer)).clamp(min=0)
        return -self.factor * (excess / self.buffer).clamp(max=1)
