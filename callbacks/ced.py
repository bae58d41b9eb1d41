"""CED (Evidence-RL): correct answers are rewarded by how much they depend on the evidence region.

The features of the evidence region are replaced, and the drop of the answer's log-prob is compared with the drop for
random regions of the same size; the standardized margin gates the reward of correct answers.

Departures from the paper:
1. The gate acts on correct answers only: gating a negative reward would make grounded wrong answers *worse*.
2. DeepStack features of the region are replaced, too.
3. ``sigma_floor`` and ``margin=raw`` are offered, because the spread of K = 3 regions saturates the margin.
4. The answer reward is binary by default; the reference code's +1 / -0.25 is ``answer_reward=signed``. The paper's
   ``composite`` is of log-probs of which it says no more: here of the sampled ones, and 0 for wrong answers.
5. Samples whose evidence box fails ``quality`` are graded by correctness only; the paper drops them beforehand.

Suffixes: B prompts, G group, T tokens, K reference regions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import masked_mean
from mmcredit.scoring.answer_scores import binary
from mmcredit.scoring.quality import FAIR, Quality, measurable
from mmcredit.scoring.replace import Evidence, FeatureReplace, Filling, Reference, RingMean
from mmcredit.scoring.views import Scored, View
from mmcredit.types import Rollout, Sample, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer

log = logging.getLogger(__name__)


def standardized_margin(s_ev: Tensor, s_non_K: Tensor, sigma_floor: float = 0.0) -> Tensor:
    """[B, G] tanh((s_ev - mean) / (std + 1e-6)) with the population std over the last dimension, K; in -1..1. Eq. (3),
    METHODS section 4, step 6."""
    mean = s_non_K.mean(-1)
    spread = (s_non_K - mean[..., None]).square().mean(-1).sqrt().clamp(min=sigma_floor)
    return torch.tanh((s_ev - mean) / (spread + 1e-6))


def raw_margin(s_ev: Tensor, s_non_K: Tensor, sigma_floor: float = 0.0) -> Tensor:
    """[B, G] s_ev - mean(s_non), nats a token. METHODS section 4, step 6."""
    return s_ev - s_non_K.mean(-1)


def ced_gate(margin: Tensor, tau: float) -> Tensor:
    """g(m) = (1 + tanh(m / tau)) / 2, in 0..1; of any shape. Eq. (4), METHODS section 4, step 7."""
    return 0.5 * (1 + torch.tanh(margin / tau))


class CED(CreditCallback):
    """Counterfactual evidence-dependence reward. METHODS section 4.

    Args:
        scope: score the ``answer`` tokens (Answer-CED) or the whole ``response`` (CoT-CED).
        margin: ``standardized_margin`` or ``raw_margin``.
        sigma_floor: smallest spread used to standardize, nats.
        answer_reward: ``binary``, ``signed`` or ``composite``.
        routed_families: families graded by margin; others get correctness only, their margin is still logged.
        gated: gate correct answers; False leaves ``R_ans + eps m`` (additive only).
        k: number of reference regions.
        tau: sharpness of the gate.
        eps: weight of the additive margin.
        filling: ``RingMean``, ``Zero`` or ``Gaussian``.
        ring: width of the ring around a region, merged tokens.
        quality: evidence boxes that fail it are not measured, the answers graded by correctness only; null for none.
        reward_clip: [low, high] or null.
        format_penalty: reward of a response without a final answer, or null.
        watch_every: rollout steps between those that measure every response; in the others, responses whose reward
            cannot depend on the margin are skipped: unrouted families, and wrong answers where ``eps`` is 0.

    Raises:
        UserError: a value out of its range.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2608.08021v2"
    without_box: ClassVar[str | None] = "the middle of the picture is measured in its place"

    def __init__(
        self,
        scope: str = "answer",
        margin: Callable[[Tensor, Tensor, float], Tensor] = standardized_margin,
        sigma_floor: float = 0.0,
        answer_reward: Callable[[Rollout], Tensor] = binary,
        routed_families: Sequence[str] = ("counting", "attribute", "spatial"),
        gated: bool = True,
        k: int = 3,
        tau: float = 0.2,
        eps: float = 0.1,
        filling: Filling | None = None,
        ring: int = 2,
        quality: Quality | None = FAIR,
        reward_clip: tuple[float, float] | None = None,
        format_penalty: float | None = None,
        watch_every: int = 20,
    ) -> None:
        if min(k, ring, watch_every) < 1 or tau <= 0 or sigma_floor < 0:
            raise UserError(
                f"callbacks.ced: k={k} must be at least 1, ring={ring} and watch_every={watch_every} too, tau={tau} "
                f"above 0, sigma_floor={sigma_floor} at least 0"
            )
        if reward_clip is not None and (isinstance(reward_clip, int | float) or len(reward_clip) != 2):
            raise UserError(f"callbacks.ced.reward_clip={reward_clip} must be [low, high] or null")
        if scope not in (allowed := [s.value for s in Scored]):
            raise UserError(f"callbacks.ced.scope={scope!r} does not exist; use one of {', '.join(allowed)}")
        self.scored, self.margin, self.sigma_floor = Scored(scope), margin, sigma_floor
        self.answer_reward, self.routed_families, self.gated = answer_reward, tuple(routed_families), gated
        self.tau, self.eps, self.reward_clip, self.format_penalty = tau, eps, reward_clip, format_penalty
        self.watch_every, self.quality, self.k = watch_every, quality, k
        regions = [Evidence(), *(Reference(i) for i in range(k))]
        filling = filling or RingMean()
        self.views = [View(image=FeatureReplace(r, filling, ring), scored=self.scored) for r in regions]

    def extra_views(self, seed: int) -> Sequence[View]:
        return self.views

    def on_reward(self, rollout: Rollout, scorer: Scorer, record: Record) -> Tensor:
        fit_B, rates = measurable(rollout.prompts, self.quality, self.k)
        scope_BGT = rollout.grades.answer_BGT if self.scored is Scored.ANSWER else rollout.mask_BGT
        scope_BGT = scope_BGT & fit_B[:, None, None]
        measured_BG = scope_BGT.any(-1) & (self._matters(rollout) | (rollout.step % self.watch_every == 0))
        drops = [
            masked_mean(rollout.logp_BGT - logp, scope_BGT & measured_BG[..., None], dim=-1)  # step 1, nats
            for logp in scorer.logps(rollout, self.views, where_BG=measured_BG)
        ]
        s_ev, s_non = drops[0], torch.stack(drops[1:], -1)
        margin = self.margin(s_ev, s_non, self.sigma_floor).masked_fill(~measured_BG, 0.0)
        record.scalars.update({f"ced/{name}_rate": rate for name, rate in rates.items()})
        self._report(rollout, record, measured_BG, s_ev, s_non.mean(-1), margin)
        return self.reward(rollout, margin, measured_BG)

    def reward(self, rollout: Rollout, margin_BG: Tensor, measured_BG: Tensor) -> Tensor:
        """[B, G] R = R_ans g(m) + eps m on routed families, plain R_ans elsewhere. METHODS section 4, steps 7-9."""
        answer_BG, correct_BG = self.answer_reward(rollout), rollout.grades.correct_BG
        routed_BG = self._routed(rollout)[:, None] & measured_BG
        gate = ced_gate(margin_BG, self.tau) if self.gated else torch.ones_like(margin_BG)
        graded = torch.where(correct_BG, answer_BG * gate, answer_BG) + self.eps * margin_BG
        reward = torch.where(routed_BG, graded, answer_BG)
        if self.format_penalty is not None:
            missing = [[a is None for a in group] for group in rollout.grades.answers]
            missing_BG = torch.tensor(missing, dtype=torch.bool).view(reward.shape)
            reward = reward.masked_fill(missing_BG, self.format_penalty)
        return reward if self.reward_clip is None else reward.clamp(*self.reward_clip)

    def _matters(self, rollout: Rollout) -> Tensor:
        """[B, G] bool, responses whose reward depends on the margin."""
        return self._routed(rollout)[:, None] & (rollout.grades.correct_BG & self.gated | (self.eps != 0))

    def uses_box(self, family: str) -> bool:
        return family in self.routed_families

    def routes(self, sample: Sample) -> bool:
        """Whether the margin enters the reward: a routed family, and no yes/no question. Step 8."""
        return self.uses_box(sample.family) and sample.answer.strip().lower() not in ("yes", "no")

    def _routed(self, rollout: Rollout) -> Tensor:
        return torch.tensor([self.routes(sample) for sample in rollout.prompts.samples], dtype=torch.bool)

    def _report(
        self, rollout: Rollout, record: Record, measured: Tensor, s_ev: Tensor, s_non: Tensor, margin: Tensor
    ) -> None:
        record.responses("ced/s_ev", s_ev, measured)
        record.responses("ced/s_non", s_non, measured)
        record.responses("ced/margin", margin, measured)
        record.responses("ced/gate", ced_gate(margin, self.tau), measured & rollout.grades.correct_BG)
        routed = self._routed(rollout)
        if rollout.step == 0 and not routed.any():
            log.warning(
                "CED changes no reward in this step: no sample is of a family in routed_families=%s (found: %s); name "
                "the families in your data, or route them, e.g. 'callbacks.ced.routed_families=[\"\"]'",
                list(self.routed_families),
                sorted({sample.family for sample in rollout.prompts.samples}),
            )
        record.scalar("ced/routed_rate", masked_mean(routed[:, None] * measured.float(), measured))
        record.histogram("ced/relevant_beats_random", (s_ev > s_non)[measured])
        families = [sample.family or "other" for sample in rollout.prompts.samples]
        for family in sorted(set(families)):
            of = measured & torch.tensor([found == family for found in families])[:, None]
            if of.any():
                record.histogram(f"ced/relevant_beats_random_{family}", (s_ev > s_non)[of])
                record.histogram(f"ced/gap_{family}", (s_ev - s_non)[of])
