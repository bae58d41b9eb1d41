"""Tokens of a response by what a router says of them. Suffixes: T tokens, S claims. METHODS section 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mmcredit.rollout.text import tokens_meeting
from mmcredit.services.claims import Routing
from mmcredit.types import Rollout, Span


@dataclass(frozen=True, slots=True)
class ClaimTokens:
    """Of one response.

    Example: of ``red circle . \\boxed{1}`` with the claim ``red circle``, the claim's two tokens, and the dot and the
    tokens of the box as reference.
    """

    claims_ST: Tensor  # bool, tokens of each routed claim, at least one
    residual_T: (
        Tensor  # bool, the reference: text tokens of no claim that depends on the picture, derived ones included
    )

    @property
    def routed_T(self) -> Tensor:
        """Bool, tokens of any routed claim."""
        return self.claims_ST.any(0)


def claim_tokens(rollout: Rollout, place: tuple[int, int], routing: Routing, special_ids: Tensor) -> ClaimTokens:
    """Tokens of the claims (step 2) and of the reference (step 4) of a response.

    Args:
        place: prompt and response.
        special_ids: tokens that are no text.
    """
    (b, g), ids_T = place, rollout.responses.ids_BGT[place]
    spans = [*rollout.responses.spans[b][g], *[(0, 0)] * int((~rollout.mask_BGT[place]).sum())]
    text_T = torch.tensor([start < end for start, end in spans]) & ~torch.isin(ids_T, special_ids)
    claims_ST = tokens_of(routing.eligible, spans)
    return ClaimTokens(claims_ST[claims_ST.any(-1)], text_T & ~tokens_of(routing.visual, spans).any(0))


def tokens_of(claims: Sequence[Span], tokens_T: Sequence[Span]) -> Tensor:
    """[S, T] bool, tokens whose half-open character interval meets the claim's."""
    meeting = [tokens_meeting(tokens_T, claim) for claim in claims]
    return torch.tensor(meeting, dtype=torch.bool).view(len(claims), len(tokens_T))
