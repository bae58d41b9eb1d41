"""PACE: a response's credit is redistributed to tokens that a right hint favours over wrong ones, where that is clear.

The teacher, a periodic copy of the policy, scores each response under a right and wrong answer hints, with the image
and with its features nulled. The contrast of the hints weighs the tokens; how confident the teacher is, compared with
the rest of the batch, says how much the weights count. Each response keeps the sign and the mean of its advantage.

Departures from the paper:
1. Confidence is compared over the rollout batch of all ranks; ``microbatch`` compares within consecutive responses, as
   the paper does, so that the result depends on how the batch is cut.
2. Which confidence the paper prints is not certain: the four trajectory means are combined one-vs-rest by default.
3. Without an image the null views *are* the full ones and are not scored again.

Suffixes: B prompts, G group, T tokens, K wrong hints, M confidence measures, N responses of the statistic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import across_ranks, log_ratio, masked_mean
from mmcredit.scoring.four_views import Aggregate, FourViews, four_view_kinds, four_views, hint_contrast, one_vs_rest
from mmcredit.scoring.hints import (
    TEMPLATE,
    check_teacher,
    gold_hints,
    hinted,
    log_mean_exp,
    sibling_hints,
    sign_weight,
    unknown_hints,
)
from mmcredit.types import Rollout, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer
    from mmcredit.scoring.views import View


def robust_z(values: Tensor, pool_N: Tensor) -> Tensor:
    """clip((S - median) / (1.4826 MAD + 1e-6), +-3), both of the pool; 0 if it has N < 3 or MAD <= 1e-6; of
    the shape of the values. METHODS section 5, step 5."""
    if len(pool_N) < 3:
        return torch.zeros_like(values)
    median = pool_N.quantile(0.5)
    mad = (pool_N - median).abs().quantile(0.5)
    return ((values - median) / (1.4826 * mad + 1e-6)).clamp(-3, 3) * (mad > 1e-6)


def standing(s_BG: Tensor, counted_BG: Tensor, microbatch: int | None) -> Tensor:
    """[B, G] z of each counted response among those of all ranks, or of ``microbatch`` consecutive ones; else 0."""
    if microbatch is None:
        return robust_z(s_BG, across_ranks(s_BG[counted_BG])) * counted_BG
    parts = zip(s_BG.flatten().split(microbatch), counted_BG.flatten().split(microbatch), strict=True)
    return torch.cat([robust_z(s, s[counted]) * counted for s, counted in parts]).view_as(s_BG)


def pace_weights(
    signal_BGT: Tensor, advantage_BGT: Tensor, rate_BG: Tensor, mask_BGT: Tensor, low: float, high: float
) -> Tensor:
    """[B, G, T] (1 - lambda) + lambda w / mean_t w, with w = clip(exp(sign(A) c), low, high); mean 1 a response.
    METHODS section 5, steps 7, 8."""
    weight = sign_weight(signal_BGT, advantage_BGT, low, high)
    unit = weight / masked_mean(weight, mask_BGT, dim=-1).clamp(min=low)[..., None]
    return 1 - rate_BG[..., None] + rate_BG[..., None] * unit


class PACE(CreditCallback):
    """Token weights from pairwise hint contrasts, mixed in by trajectory confidence. METHODS section 5.

    Args:
        max_negatives: wrong hints a response, K, 1..4.
        negatives: ``log_mean_exp`` or ``mean_logp``, over the wrong hints that a response has.
        contrast: ``hint_contrast`` or ``vision_gap``.
        alpha, beta: weights of the contrasts with and without the image.
        confidence: ``one_vs_rest``, ``vision_pair``, ``dispersion`` or ``mix``.
        fixed_rate: lambda of every response that has both hints; null adapts it.
        rate_min, rate_max: range of lambda; ``rate_min`` is also that of responses without a wrong hint.
        weight_low, weight_high: bounds of a token's weight before it is brought to mean 1.
        microbatch: consecutive responses that confidence is compared among; null: the batch of all ranks.
        zero_rows: responses of zero advantage count in that comparison, and are scored for it.
        template: the hint's line; ``{answer}`` is replaced.
        refresh_every: rollout steps between copies of the policy to the teacher.

    Raises:
        UserError: a value out of its range.
    """

    paper: ClassVar[str] = (
        "https://arxiv.org/search/?searchtype=title&query=Pairwise+Token+Contrast+and+Adaptive+Trajectory+Confidence"
    )

    def __init__(
        self,
        max_negatives: int = 1,
        negatives: Aggregate = log_mean_exp,
        contrast: Callable[[FourViews, float, float], Tensor] = hint_contrast,
        alpha: float = 1.5,
        beta: float = 0.5,
        confidence: Callable[[FourViews, Tensor], tuple[Tensor, ...]] = one_vs_rest,
        fixed_rate: float | None = None,
        rate_min: float = 0.15,
        rate_max: float = 0.65,
        weight_low: float = 0.8,
        weight_high: float = 1.2,
        microbatch: int | None = None,
        zero_rows: bool = True,
        template: str = TEMPLATE,
        refresh_every: int = 20,
    ) -> None:
        check_teacher("pace", template, refresh_every, weight_low, weight_high)
        if not 1 <= max_negatives <= 4 or (microbatch is not None and microbatch < 1):
            raise UserError(
                f"callbacks.pace.max_negatives={max_negatives} must be 1, 2, 3 or 4, callbacks.pace.microbatch="
                f"{microbatch} at least 1 or null"
            )
        if not 0 <= rate_min <= rate_max <= 1 or not 0 <= (fixed_rate or 0) <= 1:
            raise UserError(
                f"callbacks.pace.rate_min={rate_min} and rate_max={rate_max} need 0 <= rate_min <= rate_max <= 1, "
                f"fixed_rate={fixed_rate} 0..1 or null"
            )
        self.max_negatives, self.negatives, self.contrast = max_negatives, negatives, contrast
        self.alpha, self.beta, self.confidence, self.fixed_rate = alpha, beta, confidence, fixed_rate
        self.rate_min, self.rate_max, self.low, self.high = rate_min, rate_max, weight_low, weight_high
        self.microbatch, self.zero_rows = microbatch, zero_rows and fixed_rate is None
        self.template, self.refresh_every = template, refresh_every

    def extra_views(self, seed: int) -> Sequence[View]:
        return four_view_kinds(unknown_hints(1 + self.max_negatives))

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        gold, wrong = gold_hints(rollout, self.template), sibling_hints(rollout, self.max_negatives, self.template)
        gold_BG, negatives_BG = hinted(rollout, gold), sum(hinted(rollout, hints).float() for hints in wrong)
        mask, active_BG = rollout.mask_BGT, advantage_BGT.any(-1)
        paired_BG, single_BG = gold_BG & (negatives_BG > 0), gold_BG & active_BG
        counted_BG = paired_BG & mask.any(-1) & (active_BG | self.zero_rows)
        views = four_views(rollout, scorer, gold, wrong, self.negatives, counted_BG, single_BG)
        rate_BG = self._rate(views, mask, counted_BG, record)
        rate_BG = torch.where(counted_BG, rate_BG, torch.where(gold_BG, self.rate_min, 0.0))  # step 8
        signal_BGT = self.contrast(views, self.alpha, self.beta)
        signal_BGT = torch.where(counted_BG[..., None], signal_BGT, log_ratio(views.right, rollout.logp_BGT))
        raw_BGT = sign_weight(signal_BGT, advantage_BGT, self.low, self.high)
        at_bound = ((raw_BGT <= self.low) | (raw_BGT >= self.high)).float()
        record.scalar("pace/clip_share", masked_mean(at_bound, mask & single_BG[..., None]))
        record.responses("pace/negatives", negatives_BG)
        record.scalar("pace/rlsd_rate", (gold_BG & ~paired_BG).float().mean())
        record.scalar("pace/uniform_rate", (~gold_BG).float().mean())
        weight_BGT = pace_weights(signal_BGT, advantage_BGT, rate_BG, mask, self.low, self.high)
        record.tokens("pace/contrast", signal_BGT * mask)
        record.tokens("pace/weight", weight_BGT * mask)
        return advantage_BGT * weight_BGT

    def _rate(self, views: FourViews, mask_BGT: Tensor, counted_BG: Tensor, record: Record) -> Tensor:
        """[B, G] lambda of the counted responses; steps 4 to 6, and what they show."""
        s_MBG = torch.stack(self.confidence(views, mask_BGT))
        z_BG = torch.stack([standing(s_BG, counted_BG, self.microbatch) for s_BG in s_MBG]).mean(0)
        eta_BG = torch.sigmoid(z_BG)
        rate_BG = self.rate_min + (self.rate_max - self.rate_min) * eta_BG
        if self.fixed_rate is not None:
            rate_BG = torch.full_like(rate_BG, self.fixed_rate)
        gaps = {"vision_gap": views.right - views.right_null, "delta": views.right - views.wrong}
        gaps["delta_null"] = views.right_null - views.wrong_null
        shown = {name: masked_mean(gap, mask_BGT, dim=-1) for name, gap in gaps.items()}
        shown |= {"confidence": s_MBG.mean(0), "z": z_BG, "eta": eta_BG, "rate": rate_BG}
        for name, values_BG in shown.items():
            record.responses(f"pace/{name}", values_BG * counted_BG, counted_BG)
        for name in ("eta", "rate"):
            for percent in (10, 50, 90) if counted_BG.any() else ():
                record.scalar(f"pace/{name}_p{percent}", shown[name][counted_BG].quantile(percent / 100))
        return rate_BG
