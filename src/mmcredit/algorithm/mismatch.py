"""Engine and trainer are two programs: the same weights give them slightly different log-probs.

Truncated importance weights correct for it; a difference too large for rounding says that the weights are not the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mmcredit.credit import Record
from mmcredit.functional import across_ranks

QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
KEY = "mismatch/abs"  # |trainer - engine|, nats a token


def importance(old_BGT: Tensor, engine_BGT: Tensor, cap: float | None) -> Tensor:
    """[B, G, T] min(exp(trainer - engine), cap): the weight that makes samples of one samples of the other; 1 without a
    cap. Log-probs in nats."""
    if cap is None:
        return torch.ones_like(old_BGT)
    return (old_BGT - engine_BGT).clamp(-20.0, 20.0).exp().clamp(max=cap)


def report(record: Record, limit: float) -> None:
    """Quantiles over all ranks of what was collected under ``KEY``; all ranks must call it.

    Args:
        limit: largest median and largest mean, nats. A policy that is sure of most tokens has a median of nothing,
            whatever its weights.

    Raises:
        RuntimeError: it is exceeded, on all ranks: the engine does not have the trainer's weights.
    """
    ordered = across_ranks(record.histograms.get(KEY, torch.zeros(0))).sort().values
    if not len(ordered):
        return
    for name, q in QUANTILES.items():
        record.scalar(f"mismatch/{name}", ordered[round(q * (len(ordered) - 1))])
    median, mean = record.scalars["mismatch/p50"], float(ordered.mean())
    if max(median, mean) > limit:
        raise RuntimeError(
            f"engine and trainer differ by {mean:.3g} nats a token on average, {median:.3g} in the median (limit "
            f"{limit}): the engine does not have the trainer's weights, or another sampling law"
        )
