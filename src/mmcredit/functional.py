"""Pure maths shared by several rooms. Suffixes: B prompts, G group, T response tokens."""

from __future__ import annotations

import hashlib
import random

import torch
from torch import Tensor

LOG_RATIO_CLAMP = 20.0  # nats; METHODS section 0
K3_CLAMP = 10.0


def stable_seed(*parts: object) -> int:
    """A 63-bit seed from a hash of the parts: the same on every machine, process and Python version."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def stable_rng(*parts: object) -> random.Random:
    """An independent generator for one draw, named by its purpose (run seed, sample id, step, purpose)."""
    return random.Random(stable_seed(*parts))


def log_ratio(logp: Tensor, base: Tensor) -> Tensor:
    """logp - base, clamped to +-20 nats so that its exponential stays finite."""
    return (logp - base).clamp(-LOG_RATIO_CLAMP, LOG_RATIO_CLAMP)


def k3(logp_a: Tensor, logp_b: Tensor) -> Tensor:
    """Low-variance estimate of KL(a || b) from samples of a: exp(x) - x - 1 with x = logp_b - logp_a, in 0..10."""
    x = log_ratio(logp_b, logp_a)
    return (x.exp() - x - 1).clamp(0, K3_CLAMP)


def masked_mean(values: Tensor, mask: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Mean over the entries where the mask is set; 0 where it is set nowhere."""
    dims = tuple(range(values.dim())) if dim is None else dim
    return (values * mask).sum(dims) / mask.sum(dims).clamp(min=1)


def across_ranks(values: Tensor) -> Tensor:
    """[N_1 + ... + N_R, ...] the values of all ranks, in rank order; the values themselves where there is one rank."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return values
    parts: list[Tensor | None] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(parts, values.detach().cpu())
    return torch.cat([part for part in parts if part is not None]).to(values.device)


def zero_variance(reward_BG: Tensor) -> Tensor:
    """[B] bool, groups whose rewards are all equal: no advantage can be formed."""
    return reward_BG.amax(1) == reward_BG.amin(1)


def group_advantage(reward_BG: Tensor, eps: float = 1e-6) -> Tensor:
    """(r - mean) / (sample std + eps) over each group; exactly 0 where all rewards are equal (GRPO).

    Raises:
        AssertionError: groups of one response, refused earlier at configuration time.
    """
    assert reward_BG.shape[1] > 1, "a group advantage needs at least two responses"
    centred = reward_BG - reward_BG.mean(1, keepdim=True)
    scaled = centred / (reward_BG.std(1, keepdim=True) + eps)
    return scaled.masked_fill(zero_variance(reward_BG)[:, None], 0.0)
