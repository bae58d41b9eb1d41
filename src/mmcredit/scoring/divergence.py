"""Divergences between whole next-token distributions, and a rollout's under two views. Nats.

Suffixes: B prompts, G group, T tokens, S tokens of a chunk, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from mmcredit.models.head import in_chunks
from mmcredit.scoring.states import States
from mmcredit.types import UserError

Divergence = Callable[[Tensor, Tensor], Tensor]  # [S, V] log-probs of the policy and of the other -> [S]


def reverse_kl(policy_SV: Tensor, other_SV: Tensor) -> Tensor:
    """[S] KL(policy || other): the policy leaves what the other finds unlikely. METHODS section 8."""
    return (policy_SV.exp() * (policy_SV - other_SV)).sum(-1)


def forward_kl(policy_SV: Tensor, other_SV: Tensor) -> Tensor:
    """[S] KL(other || policy): the policy covers what the other finds likely. METHODS section 8."""
    return reverse_kl(other_SV, policy_SV)


def jensen_shannon(policy_SV: Tensor, other_SV: Tensor, beta: float = 0.5) -> Tensor:
    """[S] beta KL(other || m) + (1 - beta) KL(policy || m), m = beta other + (1 - beta) policy. METHODS section 8.

    Near beta = 0 it falls like beta KL(other || policy), near 1 like (1 - beta) KL(policy || other).

    Raises:
        UserError: beta outside the open interval from 0 to 1.
    """
    if not 0 < beta < 1:
        raise UserError(
            f"a Jensen-Shannon divergence needs 0 < beta < 1, not beta={beta}; at the ends stand "
            "mmcredit.scoring.divergence.forward_kl and reverse_kl"
        )
    mixed_SV = torch.logaddexp(other_SV + math.log(beta), policy_SV + math.log1p(-beta))
    return beta * reverse_kl(other_SV, mixed_SV) + (1 - beta) * reverse_kl(policy_SV, mixed_SV)


def token_divergence(divergence: Divergence, policy: States, other: States, temperature: float) -> Tensor:
    """[B, G, T] divergence before every token that both views score; 0 elsewhere. Gradients reach the policy alone.

    Both [tokens, vocabulary] matrices exist in chunks only, and are computed again in backward. Tokens that follow the
    same states under both views are computed once.
    """
    indices = torch.stack([policy.index_BGT, other.index_BGT])
    kept_BGT = (indices >= 0).all(0)
    pairs = indices[:, kept_BGT]
    (mine, others), place_S = pairs.unique(dim=1, return_inverse=True)

    def chunk(hidden_SD: Tensor, other_SD: Tensor) -> tuple[Tensor]:
        with torch.no_grad():
            other_SV = other.model.log_probs(other_SD, temperature)
        return (divergence(policy.model.log_probs(hidden_SD, temperature), other_SV),)

    hidden = policy.hidden_ND[mine], other.hidden_ND[others].detach()
    found = in_chunks(chunk, hidden, policy.model.head_chunk(distributions=2))[0][place_S]
    return found.new_zeros(kept_BGT.shape).masked_scatter(kept_BGT.to(found.device), found)
