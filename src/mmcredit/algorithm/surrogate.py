"""Ratio, clipped surrogate and entropy estimators of the GRPO family; METHODS section 0. Tensors are
[B, G, T], log-probs in nats."""

from __future__ import annotations

import torch
from torch import Tensor

from mmcredit.functional import LOG_RATIO_CLAMP, log_ratio, masked_mean


def token_ratio(logp: Tensor, logp_old: Tensor, mask: Tensor) -> Tensor:
    """exp(logp - old) of each token."""
    return log_ratio(logp, logp_old).exp()


def sequence_ratio(logp: Tensor, logp_old: Tensor, mask: Tensor) -> Tensor:
    """GSPO in its token form: the value is exp(mean_t(logp - old)) of the response, the gradient the token's own."""
    mean = masked_mean(logp.detach() - logp_old, mask, dim=-1).clamp(-LOG_RATIO_CLAMP, LOG_RATIO_CLAMP)
    return mean.exp()[..., None] * (logp - logp.detach()).exp()


def clipped_surrogate(
    ratio: Tensor, advantage: Tensor, clip_low: float, clip_high: float, dual_clip: float | None
) -> Tensor:
    """Token loss -min(rho A, clip(rho, 1-lo, 1+hi) A), bounded by -c A where A < 0 (dual clip)."""
    clipped = ratio.clamp(1 - clip_low, 1 + clip_high)
    loss = -torch.minimum(ratio * advantage, clipped * advantage)
    if dual_clip is None:
        return loss
    return torch.where(advantage < 0, torch.minimum(loss, -dual_clip * advantage), loss)


def full_entropy(logp: Tensor, entropy: Tensor) -> Tensor:
    """Entropy of the whole distribution before each token, nats."""
    return entropy


def sampled_entropy(logp: Tensor, entropy: Tensor) -> Tensor:
    """-logp of the sampled token: unbiased in value, but its expected gradient on-policy is zero."""
    return -logp
