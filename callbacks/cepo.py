"""CEPO: tokens that the right answer makes more likely than a rejected one carry more of the credit.

One teacher, a periodic copy of the policy, is shown the gold answer and, in a second view, the wrong answer of the
response's lowest-reward sibling. The difference of the log-probs weighs the advantage as in RLSD.

Departures from the paper:
1. The lowest-reward sibling is sought among those with a wrong final answer; ties go to the more frequent answer.
2. Responses without both hints keep their advantage.
3. Responses of zero advantage are not scored: they stay at zero whatever the weights.

Suffixes: B prompts, G group, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import masked_mean
from mmcredit.scoring.edits import ImageEdit, Original
from mmcredit.scoring.hints import (
    TEMPLATE,
    check_strength,
    check_teacher,
    gold_hints,
    hinted,
    linear_decay,
    mixed_advantage,
    rejected_hints,
    sign_weight,
    unknown_hints,
)
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Rollout

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer


class CEPO(CreditCallback):
    """Token weights from the contrast of a right and a rejected answer. METHODS section 6.

    Args:
        lam: strength at rollout step 0, in 0..1.
        decay_steps: rollout steps until the strength is 0; null keeps it.
        weight_low, weight_high: bounds of a token's weight.
        teacher_image: what the teacher sees: ``Original``, or ``FeatureNull`` (no image).
        template: the hint's line; ``{answer}`` is replaced.
        refresh_every: rollout steps between copies of the policy to the teacher.

    Raises:
        UserError: a value out of its range.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2605.19436"
    needs_old_logp: ClassVar[bool] = False

    def __init__(
        self,
        lam: float = 0.5,
        decay_steps: int | None = 25,
        weight_low: float = 0.8,
        weight_high: float = 1.2,
        teacher_image: ImageEdit | None = None,
        template: str = TEMPLATE,
        refresh_every: int = 10,
    ) -> None:
        check_teacher("cepo", template, refresh_every, weight_low, weight_high)
        check_strength("cepo", lam, decay_steps)
        self.lam, self.decay_steps, self.low, self.high = lam, decay_steps, weight_low, weight_high
        self.image, self.template, self.refresh_every = teacher_image or Original(), template, refresh_every

    def extra_views(self, seed: int) -> Sequence[View]:
        return [View(Weights.TEACHER, self.image, hints=hints) for hints in unknown_hints(2)]

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        lam = linear_decay(self.lam, self.decay_steps, rollout.step)
        record.scalar("cepo/strength", lam)
        if lam == 0:
            return advantage_BGT
        hints = gold_hints(rollout, self.template), rejected_hints(rollout, self.template)
        paired_BG = hinted(rollout, hints[0]) & hinted(rollout, hints[1])
        used_BG = paired_BG & advantage_BGT.any(-1)
        views = [View(Weights.TEACHER, self.image, hints=h) for h in hints]
        right, rejected = scorer.logps(rollout, views, used_BG)
        tokens = rollout.mask_BGT & used_BG[..., None]
        contrast_BGT = torch.where(tokens, right - rejected, 0.0)
        weight = sign_weight(contrast_BGT, advantage_BGT, self.low, self.high)
        record.responses("cepo/contrast", masked_mean(contrast_BGT, tokens, dim=-1), used_BG)
        record.scalar("cepo/clip_share", masked_mean(((weight <= self.low) | (weight >= self.high)).float(), tokens))
        record.scalar("cepo/unpaired_rate", (~paired_BG).float().mean())
        record.tokens("cepo/contrast", contrast_BGT)
        record.tokens("cepo/weight", ((1 - lam) + lam * weight) * tokens)
        return mixed_advantage(advantage_BGT, contrast_BGT, lam, self.low, self.high)
