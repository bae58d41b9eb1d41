"""The parent optimizer of the GRPO family: advantage, clipped surrogate, reduction and regularizers as parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mmcredit.algorithm.reduction import Reduction
from mmcredit.functional import log_ratio
from mmcredit.types import UserError


def clipped_surrogate(
    logp: Tensor, logp_old: Tensor, advantage: Tensor, clip_low: float, clip_high: float, dual_clip: float | None
) -> Tensor:
    """Token loss -min(rho A, clip(rho, 1-lo, 1+hi) A), bounded by -c A where A < 0 (dual clip). METHODS section 0."""
    ratio = log_ratio(logp, logp_old).exp()
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = -torch.minimum(ratio * advantage, clipped * advantage)
    if dual_clip is None:
        return loss
    return torch.where(advantage < 0, torch.minimum(loss, -dual_clip * advantage), loss)


@dataclass(frozen=True)
class Parent:
    """A member of the GRPO family.

    Args:
        advantage: reward [B, G] -> advantage [B, G].
        reduction: how token losses become one number.
        clip_low, clip_high: surrogate clip, ratio in [1 - low, 1 + high].
        dual_clip: bound c > 1 for negative advantages; null for none.
        kl_coef: weight of k3(policy || reference) in the loss; 0 builds no reference.
        entropy_coef: weight of the full-vocabulary entropy in the minimised loss (a penalty where > 0).
        mini_batch: prompts an optimizer step.
        micro_batch: prompts a forward and backward pass; changes memory, not results.
        epochs: passes over each rollout batch.

    Raises:
        UserError: a value out of its range.
    """

    advantage: Callable[[Tensor], Tensor]
    reduction: Reduction
    clip_low: float
    clip_high: float
    dual_clip: float | None
    kl_coef: float
    entropy_coef: float
    mini_batch: int
    micro_batch: int
    epochs: int

    def __post_init__(self) -> None:
        if not 0 <= self.clip_low < 1 or self.clip_high < 0:
            raise UserError(
                f"algorithm.clip_low={self.clip_low}, algorithm.clip_high={self.clip_high}: "
                "need 0 <= clip_low < 1 and clip_high >= 0"
            )
        if self.dual_clip is not None and self.dual_clip <= 1:
            raise UserError(f"algorithm.dual_clip={self.dual_clip} must be above 1, or null for none")
        for name in ("mini_batch", "micro_batch", "epochs"):
            if getattr(self, name) < 1:
                raise UserError(f"algorithm.{name}={getattr(self, name)} must be at least 1")
        if self.mini_batch % self.micro_batch:
            raise UserError(
                f"algorithm.mini_batch={self.mini_batch} is not a multiple of algorithm.micro_batch={self.micro_batch}"
            )

    def surrogate(self, logp: Tensor, logp_old: Tensor, advantage: Tensor) -> Tensor:
        """[B, G, T] token loss of the policy, before reduction."""
        return clipped_surrogate(logp, logp_old, advantage, self.clip_low, self.clip_high, self.dual_clip)
