"""RLCSD: the contrast of a right and several wrong answer hints is added to the advantage where it is strong.

The teacher, a periodic copy of the policy, scores each response under the gold answer and under its siblings' wrong
answers. A bounded function of the difference moves a token's advantage, never across zero. Moved ("selected") tokens
and the others are averaged apart.

Departures from the paper:
1. Averaging apart is done by scaling the advantage, with counts over the rollout batch of all ranks. Under the
   token-mean reduction and one optimizer step a rollout this *is* two normalisers, and responses that are dropped
   leave the denominators.
2. Dropped responses (those without both hints) have advantage 0; KL and entropy terms of the parent still see them.
3. Responses of zero advantage stay at zero and are counted in the denominators (``zero_rows``).

Suffixes: B prompts, G group, T tokens, K wrong hints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import across_ranks, masked_mean
from mmcredit.scoring.hints import (
    TEMPLATE,
    check_teacher,
    gold_hints,
    hinted,
    log_mean_exp,
    sibling_hints,
    unknown_hints,
)
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Rollout, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer


def token_shift(contrast_BGT: Tensor, strength: float, tau: float, delta: float, bound: float = 2.0) -> Tensor:
    """[B, G, T] r = clip(strength tanh(e / tau), +-bound) where |r| > delta, 0 elsewhere; e and tau in nats, strength
    is beta lam. METHODS section 6."""
    shift = (strength * torch.tanh(contrast_BGT / tau)).clamp(-bound, bound)
    return torch.where(shift.abs() > delta, shift, 0.0)


def rlcsd_advantage(advantage_BGT: Tensor, shift_BGT: Tensor) -> Tensor:
    """[B, G, T] max(A + r, 0) where A > 0, min(A + r, 0) where A < 0, 0 where A = 0. METHODS section 6."""
    moved = advantage_BGT + shift_BGT
    return torch.where(advantage_BGT > 0, moved.clamp(min=0), moved.clamp(max=0)) * (advantage_BGT != 0)


def normaliser_scale(selected_BGT: Tensor, kept_BGT: Tensor, mask_BGT: Tensor, eta: float) -> Tensor:
    """[B, G, T] factors that turn a mean over all tokens into eta x mean over the selected + mean over the others.

    Args:
        selected_BGT, kept_BGT: bool, selected tokens, and all tokens of responses that are not dropped.
        mask_BGT: bool, all valid tokens.
    """
    mine = torch.stack([mask_BGT.sum(), (kept_BGT & selected_BGT).sum(), (kept_BGT & ~selected_BGT).sum()])
    total, selected, others = across_ranks(mine[None]).sum(0).clamp(min=1)
    return torch.where(selected_BGT, eta * total / selected, total / others)


class RLCSD(CreditCallback):
    """Token advantages moved by the contrast of answer hints. METHODS section 6.

    Args:
        max_negatives: wrong hints a response, K, 1..4.
        beta, lam: their product is the largest shift before the bound.
        tau: scale of the contrast, nats.
        delta: shifts up to this size are dropped.
        bound: largest shift.
        eta: weight of the selected tokens' mean.
        separate: average selected and other tokens apart; False leaves the parent's reduction.
        zero_rows: responses of zero advantage count in the denominators, and are scored for it.
        template: the hint's line; ``{answer}`` is replaced.
        refresh_every: rollout steps between copies of the policy to the teacher.

    Raises:
        UserError: a value out of its range.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2606.11709"
    needs_old_logp: ClassVar[bool] = False

    def __init__(
        self,
        max_negatives: int = 4,
        beta: float = 1.0,
        lam: float = 0.5,
        tau: float = 0.02,
        delta: float = 0.02,
        bound: float = 2.0,
        eta: float = 1.0,
        separate: bool = True,
        zero_rows: bool = True,
        template: str = TEMPLATE,
        refresh_every: int = 10,
    ) -> None:
        check_teacher("rlcsd", template, refresh_every)
        if not 1 <= max_negatives <= 4:
            raise UserError(f"callbacks.rlcsd.max_negatives={max_negatives} must be 1, 2, 3 or 4")
        if tau <= 0 or min(beta, lam, delta, bound, eta) < 0:
            raise UserError(
                f"callbacks.rlcsd: tau={tau} must be above 0; beta={beta}, lam={lam}, delta={delta}, bound={bound}, "
                f"eta={eta} at least 0"
            )
        self.max_negatives, self.strength, self.tau, self.delta = max_negatives, beta * lam, tau, delta
        self.bound, self.eta, self.separate, self.zero_rows = bound, eta, separate, zero_rows
        self.template, self.refresh_every = template, refresh_every

    def extra_views(self, seed: int) -> Sequence[View]:
        return [View(Weights.TEACHER, hints=hints) for hints in unknown_hints(1 + self.max_negatives)]

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        gold, wrong = gold_hints(rollout, self.template), sibling_hints(rollout, self.max_negatives, self.template)
        given_KBG = torch.stack([hinted(rollout, hints) for hints in wrong])
        paired_BG = hinted(rollout, gold) & given_KBG[0]
        scored_BG = paired_BG & (advantage_BGT.any(-1) | (self.separate and self.zero_rows))
        views = [View(Weights.TEACHER, hints=hints) for hints in (gold, *wrong)]
        right, *others = scorer.logps(rollout, views, scored_BG)
        kept_BGT = rollout.mask_BGT & scored_BG[..., None]
        contrast_BGT = torch.where(kept_BGT, right - log_mean_exp(torch.stack(others), given_KBG), 0.0)
        shift_BGT = token_shift(contrast_BGT, self.strength, self.tau, self.delta, self.bound)
        selected_BGT, advantage_BGT = shift_BGT != 0, advantage_BGT * kept_BGT
        moved_BGT = rlcsd_advantage(advantage_BGT, shift_BGT)
        record.responses("rlcsd/contrast", masked_mean(contrast_BGT, kept_BGT, dim=-1), scored_BG)
        record.responses("rlcsd/negatives", given_KBG.sum(0).float())
        record.scalar("rlcsd/selected_share", masked_mean(selected_BGT.float(), kept_BGT))
        record.scalar("rlcsd/zeroed_share", masked_mean((moved_BGT == 0).float(), advantage_BGT != 0))
        record.scalar("rlcsd/dropped_rate", (~paired_BG).float().mean())
        record.tokens("rlcsd/contrast", contrast_BGT)
        record.tokens("rlcsd/shift", shift_BGT * kept_BGT)
        if not self.separate:
            return moved_BGT
        return moved_BGT * normaliser_scale(selected_BGT, kept_BGT, rollout.mask_BGT, self.eta)
