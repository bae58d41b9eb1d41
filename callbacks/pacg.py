"""PACG: claims about the picture that the policy would make without the picture earn less positive credit.

A router marks the direct visual claims of a response. The response is scored again under a corrupted picture; a claim
whose log-prob does not fall by a margin more than that of the response's other text is persistent, and the positive
advantage of its tokens is multiplied by a gate below 1. Nothing else is changed.

Where the paper is silent:
1. ``residual=False`` drops the rule on the size of the reference, too, since there is none.
2. ``routing=False`` makes every valid token a claim of its own, but keeps the reference and the router that gives it:
   an answer without claims leaves all text as reference, a router that fails still leaves the response alone.
3. Responses without any creditable token, and those to prompts without a picture, are neither routed nor scored.

Suffixes: B prompts, G group, T tokens, S claims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import across_ranks, masked_mean, zero_variance
from mmcredit.scoring.corrupted import corrupted_logp, corrupted_view, has_picture
from mmcredit.scoring.edits import ImageEdit, PixelMask
from mmcredit.services.claim_tokens import ClaimTokens, claim_tokens
from mmcredit.services.claims import Routing
from mmcredit.services.router import Router, routing_requests
from mmcredit.services.service import Ahead, Place
from mmcredit.types import Rollout, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer
    from mmcredit.scoring.views import View

FALLBACKS = ("router_failure", "no_claim", "short_residual", "scoring_failure")  # why a response keeps unit gates


def persistence(eta_T: Tensor, claims_ST: Tensor, residual_T: Tensor | None) -> Tensor:
    """[S] nats a token, how well each claim survives the corruption; lower retracts more. METHODS section 3, step 5.

    Args:
        eta_T: log-prob under the corrupted picture minus log-prob, nats.
        claims_ST: bool, tokens of each claim, at least one.
        residual_T: bool, reference tokens of the response; None for no correction.
    """
    reference = 0.0 if residual_T is None else masked_mean(eta_T, residual_T)
    return masked_mean(eta_T, claims_ST, dim=-1) - reference


def pacg_gate(delta_S: Tensor, margin: float = 0.05, alpha: float = 10.0, floor: float = 0.30) -> Tensor:
    """[S] gate max(floor, exp(-alpha max(0, delta + margin))) of each claim, floor..1; METHODS section 3, step 6.

    Example: persistence -.05 or less -> 1, 0 -> .61, .0704 or more -> .30.
    """
    return torch.exp(-alpha * (delta_S + margin).clamp(min=0)).clamp(min=floor)


@dataclass
class Case:
    """A response whose credit may be gated."""

    routing: Routing
    tokens: ClaimTokens
    fallback: str | None  # why it keeps unit gates


class PACG(CreditCallback):
    """Persistence-aware credit gating. METHODS section 3.

    Args:
        router: marks the claims of responses.
        margin: retraction below the reference that keeps full credit, nats.
        alpha: strength of the attenuation, at least 0.
        floor: smallest gate, 0..1.
        min_residual: reference tokens without which a response is left alone, at least 1.
        corruption: edit of the picture under which claims are scored again; None: half of its cells blackened.
        per_response: another draw of the corruption for each response of a group.
        residual: subtract the mean of the reference tokens.
        routing: gate claims only; False gates every token by itself.
        positive_only: gate positive advantages only.
        score_ahead: score all responses asked about while the router thinks, also those that it will say nothing of.

    Raises:
        UserError: a value out of its range.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2609.36572v3"

    def __init__(
        self,
        router: Router,
        margin: float = 0.05,
        alpha: float = 10.0,
        floor: float = 0.30,
        min_residual: int = 8,
        corruption: ImageEdit | None = None,
        per_response: bool = False,
        residual: bool = True,
        routing: bool = True,
        positive_only: bool = True,
        score_ahead: bool = False,
    ) -> None:
        if alpha < 0 or not 0 <= floor <= 1 or min_residual < 1:
            raise UserError(
                f"callbacks.pacg: alpha={alpha} must be at least 0, floor={floor} in 0..1, "
                f"min_residual={min_residual} at least 1"
            )
        self.router, self.corruption = Ahead(router), corruption or PixelMask(0.5)
        self.margin, self.alpha, self.floor, self.min_residual = margin, alpha, floor, min_residual
        self.residual, self.routing, self.positive_only = residual, routing, positive_only
        self.per_response, self.score_ahead = per_response, score_ahead

    def extra_views(self, seed: int) -> Sequence[View]:
        return [corrupted_view(self.corruption, seed, 0)]

    def on_rollout(self, rollout: Rollout, record: Record) -> None:
        """Asks the router about the responses whose reward promises credit."""
        above_BG = rollout.reward_BG - rollout.reward_BG.mean(1, keepdim=True)
        promising_BG = self._creditable(above_BG) & ~zero_variance(rollout.reward_BG)[:, None]
        self.router.ask(routing_requests(rollout, promising_BG & has_picture(rollout.prompts)))

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        creditable_BGT = self._creditable(advantage_BGT)
        asked_BG = creditable_BGT.any(-1) & has_picture(rollout.prompts)
        if self.score_ahead:  # what is found is kept by the scorer
            corrupted_logp(rollout, scorer, self.corruption, asked_BG, self.per_response)
        with record.stage("router"):
            routings = self.router.collect(routing_requests(rollout, asked_BG))
        special_ids, where_BG = scorer.encoder.special_ids, torch.zeros(rollout.shape[:2], dtype=torch.bool)
        cases = {place: self._case(rollout, place, routing, special_ids) for place, routing in routings.items()}
        for place, case in cases.items():
            where_BG[place] = case.fallback is None
        masked = corrupted_logp(rollout, scorer, self.corruption, where_BG, self.per_response)
        eta_BGT = (masked - rollout.logp_BGT).double()  # step 3
        gate_BGT, deltas = torch.ones_like(eta_BGT), [eta_BGT.new_empty(0)]
        for place in (place for place, case in cases.items() if case.fallback is None):
            if not torch.isfinite(eta_BGT[place]).all():
                cases[place].fallback = "scoring_failure"
                continue
            claims_ST, residual_T = cases[place].tokens.claims_ST, cases[place].tokens.residual_T
            deltas.append(persistence(eta_BGT[place], claims_ST, residual_T if self.residual else None))
            gate_ST = torch.where(claims_ST, pacg_gate(deltas[-1], self.margin, self.alpha, self.floor)[:, None], 1.0)
            gate_BGT[place] = gate_ST.amin(0)  # step 7
        self._report(record, cases, torch.cat(deltas), creditable_BGT, gate_BGT)
        return torch.where(creditable_BGT, advantage_BGT * gate_BGT, advantage_BGT).to(advantage_BGT.dtype)

    def _creditable(self, credit: Tensor) -> Tensor:
        """Bool, where credit may be gated."""
        return credit > 0 if self.positive_only else credit != 0

    def _case(self, rollout: Rollout, place: Place, routing: Routing, special_ids: Tensor) -> Case:
        """Its tokens, and whether they can be gated (step 8)."""
        tokens = claim_tokens(rollout, place, routing, special_ids)
        if not self.routing:
            every_ST = torch.eye(rollout.shape[2], dtype=torch.bool)[rollout.mask_BGT[place]]
            tokens = ClaimTokens(every_ST, tokens.residual_T)
        short = self.residual and int(tokens.residual_T.sum()) < self.min_residual
        failed = (routing.failure is not None, not len(tokens.claims_ST), short)
        return Case(routing, tokens, next((why for why, here in zip(FALLBACKS, failed, strict=False) if here), None))

    def _report(
        self, record: Record, cases: dict[Place, Case], delta: Tensor, creditable: Tensor, gate: Tensor
    ) -> None:
        for why in FALLBACKS:
            record.histogram(f"pacg/{why}_rate", torch.tensor([case.fallback == why for case in cases.values()]))
        failures = [case.routing.failure for case in cases.values()]
        for kind in {failure for failure in failures if failure}:
            record.histogram(f"pacg/failure_{kind}_rate", torch.tensor([failure == kind for failure in failures]))
        answered = {place: case for place, case in cases.items() if not case.routing.failure}
        record.histogram("pacg/spans", torch.tensor([len(case.routing.eligible) for case in answered.values()]))
        record.histogram("pacg/dropped_spans", torch.tensor([case.routing.dropped for case in answered.values()]))
        record.histogram("pacg/delta", delta)
        record.histogram("pacg/gate", pacg_gate(delta, self.margin, self.alpha, self.floor))
        routed = torch.zeros(gate.shape, dtype=torch.bool)
        for place, case in answered.items():
            routed[place] = case.tokens.routed_T
        record.tokens("pacg/claim", routed)
        record.tokens("pacg/gate", torch.where(creditable, gate, 1.0))
        record.histogram("pacg/kept_rate", creditable[routed])
        record.histogram("pacg/retention", credited := gate[routed & creditable])
        record.histogram("pacg/downweighted_rate", credited < 1)
        record.histogram("pacg/floor_rate", credited <= self.floor)
        if len(delta := across_ranks(delta)):
            record.scalar("pacg/delta_p90", delta.quantile(0.9))
