"""Engine and trainer are two programs: the same weights give them slightly different log-probs.

Truncated importance weights correct for it; a difference too large for rounding says that the weights are not the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mmcredit.credit import Record

QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}
KEY = "mismatch/abs"  # |trainer - engine|, nats a token


def importance(old_BGT: Tensor, engine_BGT: Tensor, cap: float | None) -> Tensor:
    """[B, G, T] min(exp(trainer - engine), cap): the weight that makes samples of one samples of the other; 1 without a
    cap. Log-probs in nats."""
    if cap is None:
        return torch.ones_like(old_BGT)
    return (old_BGT - engine_BGT).clamp(-20.0, 20.0).exp().clamp(max=cap)


def report(record: Record, limit: float) -> None:
    """Quantiles of what was collected under ``KEY``.

    Args:
        limit: largest median, nats.

    Raises:
        RuntimeError: it is exceeded: the engine does not have the trainer's weights.
    """
    differences = record.histograms.get(KEY)
    if differences is None or not len(differences):
        return
    for name, q in QUANTILES.items():
        record.scalar(f"mismatch/{name}", differences.quantile(q))
    if (median := record.scalars["mismatch/p50"]) > limit:
        raise RuntimeError(
            f"engine and trainer differ by {median:.3g} nats a token in the median (limit {limit}): the engine "
            "does not have the trainer's weights, or another sampling law"
        )
