"""From token losses to one number. The denominators belong to the whole optimizer mini-batch over all ranks, so a
mini-batch may be cut into micro-batches in any way. METHODS section 0. Suffixes: B prompts, G group, T tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from mmcredit.types import UserError


class Reduction(Protocol):
    """Weights that turn a sum over tokens into the reduced loss."""

    def size(self, mask_BGT: Tensor) -> Tensor:
        """One number, this mini-batch's part of the denominator; parts of all ranks are added up."""

    def weights(self, mask_BGT: Tensor, size: Tensor) -> Tensor:
        """[B, G, T] weight of each token of a micro-batch, given the whole mini-batch's denominator."""


@dataclass(frozen=True)
class TokenMean:
    """Sum over all valid tokens / their number."""

    def size(self, mask_BGT: Tensor) -> Tensor:
        return mask_BGT.sum()

    def weights(self, mask_BGT: Tensor, size: Tensor) -> Tensor:
        return mask_BGT / size.clamp(min=1)


@dataclass(frozen=True)
class SequenceMean:
    """Mean over responses of the mean over their tokens."""

    def size(self, mask_BGT: Tensor) -> Tensor:
        return mask_BGT.any(-1).sum()

    def weights(self, mask_BGT: Tensor, size: Tensor) -> Tensor:
        return mask_BGT / mask_BGT.sum(-1, keepdim=True).clamp(min=1) / size.clamp(min=1)


@dataclass(frozen=True)
class ConstantHorizon:
    """Token sum / (responses x a fixed horizon), so that long responses are not discounted (Dr.GRPO).

    Args:
        horizon: tokens, at least 1.

    Raises:
        UserError: it is not.
    """

    horizon: int

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise UserError(f"algorithm.reduction.horizon={self.horizon} must be at least 1")

    def size(self, mask_BGT: Tensor) -> Tensor:
        return mask_BGT.any(-1).sum()

    def weights(self, mask_BGT: Tensor, size: Tensor) -> Tensor:
        return mask_BGT / (size.clamp(min=1) * self.horizon)
