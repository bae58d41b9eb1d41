"""RLSD: tokens that a teacher who knows the answer finds more likely than the policy did carry more of the credit.

The teacher is a periodic copy of the policy that sees the gold answer. Its gain over the policy's log-prob weighs the
advantage of each token, within bounds and with a strength that fades in the first steps of training.

Departures from the paper:
1. Responses to samples without a gold answer keep their advantage.
2. Responses of zero advantage are not scored: they stay at zero whatever the weights.

Suffixes: B prompts, G group, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import log_ratio, masked_mean
from mmcredit.scoring.hints import (
    TEMPLATE,
    check_strength,
    check_teacher,
    gold_hints,
    hinted,
    linear_decay,
    mixed_advantage,
    sign_weight,
    unknown_hints,
)
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Rollout

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer


class RLSD(CreditCallback):
    """Token weights from the gain of an answer-hinted teacher. METHODS section 6.

    Args:
        lam: strength at rollout step 0, in 0..1.
        decay_steps: rollout steps until the strength is 0; null keeps it.
        weight_low, weight_high: bounds of a token's weight.
        template: the hint's line; ``{answer}`` is replaced.
        refresh_every: rollout steps between copies of the policy to the teacher.

    Raises:
        UserError: a value out of its range.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2604.03128"

    def __init__(
        self,
        lam: float = 0.5,
        decay_steps: int | None = 50,
        weight_low: float = 0.8,
        weight_high: float = 1.2,
        template: str = TEMPLATE,
        refresh_every: int = 10,
    ) -> None:
        check_teacher("rlsd", template, refresh_every, weight_low, weight_high)
        check_strength("rlsd", lam, decay_steps)
        self.lam, self.decay_steps, self.low, self.high = lam, decay_steps, weight_low, weight_high
        self.template, self.refresh_every = template, refresh_every

    def extra_views(self, seed: int) -> Sequence[View]:
        return [View(Weights.TEACHER, hints=hints) for hints in unknown_hints(1)]

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        lam = linear_decay(self.lam, self.decay_steps, rollout.step)
        record.scalar("rlsd/strength", lam)
        if lam == 0:
            return advantage_BGT
        hints = gold_hints(rollout, self.template)
        given_BG = hinted(rollout, hints)
        used_BG = given_BG & advantage_BGT.any(-1)
        logp = scorer.logp(rollout, View(Weights.TEACHER, hints=hints), used_BG)
        tokens = rollout.mask_BGT & used_BG[..., None]
        gain_BGT = torch.where(tokens, log_ratio(logp, rollout.logp_BGT), 0.0)
        weight = sign_weight(gain_BGT, advantage_BGT, self.low, self.high)
        record.responses("rlsd/gain", masked_mean(gain_BGT, tokens, dim=-1), used_BG)
        record.scalar("rlsd/clip_share", masked_mean(((weight <= self.low) | (weight >= self.high)).float(), tokens))
        record.scalar("rlsd/unhinted_rate", (~given_BG).float().mean())
        record.tokens("rlsd/gain", gain_BGT)
        record.tokens("rlsd/weight", ((1 - lam) + lam * weight) * tokens)
        return mixed_advantage(advantage_BGT, gain_BGT, lam, self.low, self.high)
