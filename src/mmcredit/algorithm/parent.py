"""The parent optimizer of the GRPO family: advantage, clipped surrogate, reduction and regularizers as parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from mmcredit.algorithm.overlong import OverlongPenalty
from mmcredit.algorithm.reduction import Reduction
from mmcredit.algorithm.selection import DynamicSampling
from mmcredit.algorithm.surrogate import clipped_surrogate, full_entropy, token_ratio
from mmcredit.types import UserError

Ratio = Callable[[Tensor, Tensor, Tensor], Tensor]
Entropy = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Parent:
    """A member of the GRPO family. METHODS section 0.

    Args:
        advantage: reward [B, G] -> advantage [B, G].
        reduction: how token losses become one number.
        clip_low, clip_high: surrogate clip, ratio in [1 - low, 1 + high].
        dual_clip: bound c > 1 for negative advantages; null for none.
        kl_coef: weight of k3(policy || reference) in the loss; 0 builds no reference.
        entropy_coef: weight of the entropy in the minimised loss (a penalty where > 0).
        mini_batch: prompts an optimizer step, over all ranks.
        micro_batch: prompts a forward and backward pass of a rank; changes memory, not results.
        epochs: passes over each rollout batch.
        ratio: (logp, old logp, mask) [B, G, T] -> ratio of each token: ``token_ratio`` or ``sequence_ratio``.
        entropy: (logp, entropy) [B, G, T] -> estimator of each token: ``full_entropy`` or ``sampled_entropy``.
        selection: dynamic sampling; null trains on every prompt.
        overlong: penalty on long responses; null for none.
        tis: cap of the importance weight between engine and trainer, where their log-probs may differ; null for none.

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
    ratio: Ratio = token_ratio
    entropy: Entropy = full_entropy
    selection: DynamicSampling | None = None
    overlong: OverlongPenalty | None = None
    tis: float | None = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.clip_low < 1 or self.clip_high < 0:
            raise UserError(
                f"algorithm.clip_low={self.clip_low}, algorithm.clip_high={self.clip_high}: "
                "need 0 <= clip_low < 1 and clip_high >= 0"
            )
        if self.dual_clip is not None and self.dual_clip <= 1:
            raise UserError(f"algorithm.dual_clip={self.dual_clip} must be above 1, or null for none")
        if self.tis is not None and self.tis < 1:
            raise UserError(f"algorithm.tis={self.tis} must be at least 1, or null for no importance weights")
        for name in ("mini_batch", "micro_batch", "epochs"):
            if getattr(self, name) < 1:
                raise UserError(f"algorithm.{name}={getattr(self, name)} must be at least 1")
        if self.mini_batch % self.micro_batch:
            fits = [size for size in range(1, self.mini_batch + 1) if self.mini_batch % size == 0]
            raise UserError(
                f"algorithm.mini_batch={self.mini_batch} is not a multiple of algorithm.micro_batch={self.micro_batch}"
                f"; use a micro_batch of {', '.join(map(str, fits))}"
            )

    def surrogate(self, ratio: Tensor, advantage: Tensor) -> Tensor:
        """[B, G, T] token loss of the policy, before reduction."""
        return clipped_surrogate(ratio, advantage, self.clip_low, self.clip_high, self.dual_clip)
