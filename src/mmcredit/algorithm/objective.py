"""The loss of a micro-batch: surrogate, regularizers and what the methods add."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mmcredit.algorithm.mismatch import KEY, importance
from mmcredit.algorithm.parent import Parent
from mmcredit.credit import CreditCallback, Record, check_result
from mmcredit.functional import k3, k3_clamped
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
    on_policy: bool = False,
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A micro-batch's part of each loss term, and sums over its tokens of quantities that are watched.

    Args:
        reference_BGT: log-probs of the reference, where the parent has a KL term.
        size: denominator of the reduction, of the whole mini-batch over all ranks.
        on_policy: the policy is still the one that sampled: this pass fills in the old log-probs of ``micro``.
    """
    logp, full_entropy = scorer.train_scores(micro)
    if on_policy:
        micro.logp_BGT.copy_(logp.detach())  # a view of the rollout's: later epochs find them there
    mask, old, advantage = (x.to(logp.device) for x in (micro.mask_BGT, micro.logp_BGT, advantage_BGT))
    weights = algorithm.reduction.weights(mask, size)
    ratio, entropy = algorithm.ratio(logp, old, mask), algorithm.entropy(logp, full_entropy)
    surrogate = algorithm.surrogate(ratio, advantage)
    if micro.engine_logp_BGT is not None:
        engine = micro.engine_logp_BGT.to(logp.device)
        surrogate = surrogate * importance(old, engine, algorithm.tis)
        record.extend(KEY, (old - engine).abs()[mask])
    terms = {"policy_loss": (surrogate * weights).sum()}
    if reference_BGT is not None:
        reference_BGT = reference_BGT.to(logp.device)
        terms["kl_loss"] = algorithm.kl_coef * (k3(logp, reference_BGT) * weights).sum()
    if algorithm.entropy_coef:
        terms["entropy_loss"] = algorithm.entropy_coef * (entropy * weights).sum()
    for method in chain:
        extra = method.on_loss(micro, logp, scorer, record)
        if extra is not None:
            check_result(method, "on_loss", extra, logp.shape)
            terms[f"{type(method).__name__.lower()}_loss"] = (extra * weights).sum()
    with torch.no_grad():
        watched = {"entropy": full_entropy, "kl_old": k3(old, logp), "k3_clamp_rate": k3_clamped(old, logp)}
        watched["clip_rate"] = (ratio < 1 - algorithm.clip_low) | (ratio > 1 + algorithm.clip_high)
        if reference_BGT is not None:
            watched["kl_reference"] = k3(logp, reference_BGT)
            watched["k3_clamp_rate"] |= k3_clamped(logp, reference_BGT)
        for key, value in watched.items():
            record.extend(f"train/{key}", value[mask])
        return terms, {key: (value * mask).sum() for key, value in watched.items()}
