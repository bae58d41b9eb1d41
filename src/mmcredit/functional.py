"""Pure maths shared by several rooms. Suffixes: B prompts, G group, T response tokens."""

from __future__ import annotations

import hashlib
import random
from typing import TypeVar

import torch
from torch import Tensor, distributed

LOG_RATIO_CLAMP = 20.0  # nats; METHODS section 0
K3_CLAMP = 10.0
EQUAL = 1e-5  # spread of rewards of order one that is rounding of float32
Value = TypeVar("Value")


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
    return _k3(logp_a, logp_b).clamp(0, K3_CLAMP)


def k3_clamped(logp_a: Tensor, logp_b: Tensor) -> Tensor:
    """Bool, where a clamp bites in ``k3``. A log-ratio beyond +-20 gives more than 10, so one question answers both."""
    return _k3(logp_a, logp_b) > K3_CLAMP


def _k3(logp_a: Tensor, logp_b: Tensor) -> Tensor:
    x = log_ratio(logp_b, logp_a)
    return x.exp() - x - 1


def masked_mean(values: Tensor, mask: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Mean over the entries where the mask is set; 0 where it is set nowhere."""
    dims = tuple(range(values.dim())) if dim is None else dim
    return (values * mask).sum(dims) / mask.sum(dims).clamp(min=1)


def zero_variance(reward_BG: Tensor) -> Tensor:
    """[B] bool, groups whose rewards are equal up to rounding (saturated gates differ by 1e-7): no advantage can be
    formed, and none may be made of noise by dividing by its spread."""
    largest, smallest = reward_BG.amax(1), reward_BG.amin(1)
    return largest - smallest <= EQUAL * reward_BG.abs().amax(1).clamp(min=1.0)


def group_advantage(reward_BG: Tensor, eps: float = 1e-6) -> Tensor:
    """(r - mean) / (sample std + eps) over each group; exactly 0 where all rewards are equal (GRPO).

    Raises:
        AssertionError: groups of one response, refused earlier at configuration time.
    """
    scaled = mean_advantage(reward_BG) / (reward_BG.std(1, keepdim=True) + eps)
    return scaled.masked_fill(zero_variance(reward_BG)[:, None], 0.0)


def mean_advantage(reward_BG: Tensor) -> Tensor:
    """r - mean over each group; exactly 0 where all rewards are equal (Dr.GRPO)."""
    assert reward_BG.shape[1] > 1, "a group advantage needs at least two responses"
    centred = reward_BG - reward_BG.mean(1, keepdim=True)
    return centred.masked_fill(zero_variance(reward_BG)[:, None], 0.0)


def leave_one_out_advantage(reward_BG: Tensor) -> Tensor:
    """r - mean over the *other* responses of the group; exactly 0 where all rewards are equal (RLOO)."""
    group = reward_BG.shape[1]
    return mean_advantage(reward_BG) * (group / (group - 1))


def rank() -> int:
    """Number of this process among those that train together."""
    return distributed.get_rank() if _ranked() else 0


def world() -> int:
    """Number of processes that train together."""
    return distributed.get_world_size() if _ranked() else 1


def gather(value: Value) -> list[Value]:
    """The value of every rank (anything that pickles), in rank order. All ranks must call it."""
    if not _ranked():
        return [value]
    found: list[Value] = [value] * world()
    distributed.all_gather_object(found, value)
    return found


def across_ranks(values: Tensor) -> Tensor:
    """Concatenation of every rank's values along the first dimension, in rank order; lengths may differ, and be 0.

    For statistics of the whole batch; no gradient flows through it. All ranks must call it.
    """
    return torch.cat(gather(values.detach().cpu())).to(values.device) if _ranked() else values


def _ranked() -> bool:
    return distributed.is_available() and distributed.is_initialized()
