"""Watches, without changing it, how much positive credit reaches the routed claims of each rollout step.

PACG, https://arxiv.org/abs/2609.36572v3, appendix E.3. Suffixes: B prompts, G group, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.algorithm.parent import Parent
from mmcredit.callbacks.pacg import PACG
from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import masked_mean
from mmcredit.scoring.corrupted import has_picture
from mmcredit.services.claim_tokens import claim_tokens
from mmcredit.services.router import Router, routing_requests
from mmcredit.types import Rollout

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer

PAPER = "https://arxiv.org/abs/2609.36572v3"


@dataclass(frozen=True, slots=True)
class StepExposure:
    """One rollout step, means over the routed tokens of a response, then over responses; nan without any."""

    step: int
    positive: float  # P_pos: share of routed tokens with positive credit of the parent
    mass: float  # M_eff: positive advantage x unclipped x weight in the reduction, summed over the updates


class Tap(CreditCallback):
    """Remembers the token advantage at its place in the chain."""

    paper: ClassVar[str] = PAPER
    needs_old_logp = False
    advantage_BGT: Tensor

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        self.advantage_BGT = advantage_BGT
        return advantage_BGT


class ExposureWatch(Tap):
    """Last in the chain: sees the advantage that is applied, and each update's ratio.

    Args:
        router: marks the claims of all responses with a picture.
        algorithm: the parent: clip, ratio, reduction.
        parent: sees the parent's credit, other methods' included, before PACG.
    """

    def __init__(self, router: Router, algorithm: Parent, parent: Tap) -> None:
        self.router, self.algorithm, self.parent = router, algorithm, parent
        self.steps: list[StepExposure] = []
        self.mask_BGT, self.routed_BGT, self.mass_BGT = (torch.zeros(0) for _ in range(3))

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        everything_BG = has_picture(rollout.prompts).expand(rollout.shape[:2])
        requests = routing_requests(rollout, everything_BG)
        answers = zip(requests, self.router.submit(list(requests.values())).result(), strict=True)
        self.routed_BGT = torch.zeros(rollout.shape, dtype=torch.bool)
        for place, routing in answers:
            self.routed_BGT[place] = claim_tokens(rollout, place, routing, scorer.encoder.special_ids).routed_T
        self.mask_BGT, self.mass_BGT = rollout.mask_BGT, torch.zeros(rollout.shape)
        return super().on_advantage(rollout, advantage_BGT, scorer, record)

    def on_loss(self, micro: Rollout, logp_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor | None:
        rows = slice(micro.start, micro.start + len(micro.prompts))
        first = micro.start // self.algorithm.mini_batch * self.algorithm.mini_batch
        size = self.algorithm.reduction.size(self.mask_BGT[first : first + self.algorithm.mini_batch])
        weight_BGT = self.algorithm.reduction.weights(micro.mask_BGT, size)
        ratio_BGT = self.algorithm.ratio(logp_BGT.detach().cpu(), micro.logp_BGT.cpu(), micro.mask_BGT)
        unclipped_BGT = ratio_BGT <= 1 + self.algorithm.clip_high  # only this bound stops a positive advantage
        self.mass_BGT[rows] += self.advantage_BGT[rows].clamp(min=0) * unclipped_BGT * weight_BGT
        return None

    def finish(self, step: int) -> None:
        """Close the step; one that trained nothing is left out."""
        if not self.routed_BGT.numel():
            return
        routed_BG = self.routed_BGT.any(-1)
        means = [
            masked_mean(values.double(), self.routed_BGT, dim=-1)[routed_BG]
            for values in (self.parent.advantage_BGT > 0, self.mass_BGT)
        ]
        self.steps.append(StepExposure(step, *(float(m.mean()) if len(m) else float("nan") for m in means)))
        self.routed_BGT = torch.zeros(0)


def watched(chain: Sequence[CreditCallback], watch: ExposureWatch) -> list[CreditCallback]:
    """The chain with the parent's tap before the first PACG, and the watch at its end."""
    at = next((i for i, method in enumerate(chain) if isinstance(method, PACG)), len(chain))
    return [*chain[:at], watch.parent, *chain[at:], watch]
