"""The loss of a micro-batch: surrogate, regularizers and what the methods add."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mmcredit.algorithm.parent import Parent
from mmcredit.credit import CreditCallback, Record, check_result
from mmcredit.functional import k3, log_ratio
from mmcredit.scoring.scorer import Scorer
from mmcredit.types import Rollout


def loss_terms(
    algorithm: Parent,
    chain: Sequence[CreditCallback],
    scorer: Scorer,
    micro: Rollout,
    advantage_BGT: Tensor,
    reference_BGT: Tensor | None,
    size: Tensor,
    record: Record,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A micro-batch's part of each loss term, and sums over its tokens of quantities that are watched.

    Args:
        reference_BGT: log-probs of the reference, where the parent has a KL term.
        size: denominator of the reduction, of the whole mini-batch over all ranks.
    """
    logp, entropy = scorer.train_scores(micro)
    mask, old, advantage = (x.to(logp.device) for x in (micro.mask_BGT, micro.logp_BGT, advantage_BGT))
    weights = algorithm.reduction.weights(mask, size)
    terms = {"policy_loss": (algorithm.surrogate(logp, old, advantage) * weights).sum()}
    if reference_BGT is not None:
        terms["kl_loss"] = algorithm.kl_coef * (k3(logp, reference_BGT.to(logp.device)) * weights).sum()
    if algorithm.entropy_coef:
        terms["entropy_loss"] = algorithm.entropy_coef * (entropy * weights).sum()
    for method in chain:
        extra = method.on_loss(micro, logp, scorer, record)
        if extra is not None:
            check_result(method, "on_loss", extra, logp.shape)
            terms[f"{type(method).__name__.lower()}_loss"] = (extra * weights).sum()
    with torch.no_grad():
        ratio = log_ratio(logp, old).exp()
        clipped = (ratio < 1 - algorithm.clip_low) | (ratio > 1 + algorithm.clip_high)
        watched = {"entropy": entropy, "kl_old": k3(old, logp), "clip_rate": clipped.float()}
        if reference_BGT is not None:
            watched["kl_reference"] = k3(logp, reference_BGT.to(logp.device))
        for key, value in watched.items():
            record.extend(f"train/{key}", value[mask])
        return terms, {key: (value * mask).sum() for key, value in watched.items()}
