"""CED's measurements of a bank's responses under one kind of box, picture and replacement.

Suffixes: B prompts, G group, K reference regions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from mmcredit.callbacks.ced import CED
from mmcredit.diagnostics.boxes import Change
from mmcredit.diagnostics.draws import by_question
from mmcredit.diagnostics.setting import Setting, numbers
from mmcredit.functional import masked_mean
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.parts import take
from mmcredit.scoring.quality import measurable
from mmcredit.scoring.regions import evidence_box
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import Scored, View
from mmcredit.types import Rollout, Sample


@dataclass(frozen=True, slots=True)
class Measured:
    """One response that CED can measure."""

    question: int
    response: int
    s_ev: float  # drop of its tokens' log-prob without the evidence region, nats a token
    s_non: tuple[float, ...]  # [K] without each reference region
    margin: float
    reward: float  # CED's
    raw_reward: float  # before any clip
    correct: bool
    answer: str | None
    length: int  # tokens
    area: float  # of the evidence box, share of the picture

    @property
    def gap(self) -> float:
        """Evidence - reference, nats a token."""
        return self.s_ev - sum(self.s_non) / len(self.s_non)

    def beats(self, tie: float) -> float:
        """Whether the evidence counts more than the mean reference; gaps up to ``tie`` nats are half a win."""
        return win(self.gap, tie)

    def auc(self, tie: float) -> float:
        """Share of the reference regions that the evidence beats, ties as in ``beats``."""
        return sum(win(self.s_ev - other, tie) for other in self.s_non) / len(self.s_non)


def win(difference: float, tie: float) -> float:
    """1, 0, or a half within ``tie``."""
    return 0.5 if abs(difference) <= tie else float(difference > 0)


@dataclass(frozen=True)
class Probe:
    """Measures a checkpoint.

    Args:
        setting: bank and scoring.
        method: CED as it is to be audited: tokens, margin, quality filter, reward.
    """

    setting: Setting
    method: CED

    def __call__(self, policy: VisionLanguageModel, change: Change, views: Sequence[View]) -> list[Measured]:
        """Of every response whose *true* box passes the quality filter and whose changed sample exists.

        Args:
            change: makes the sample that is scored of the true one.
            views: the evidence region replaced, then each reference region.
        """
        scorer = self.setting.scorer(policy)

        def work(start: int, stop: int) -> list[Measured]:
            rollout = self.setting.frozen(policy, start, stop)
            fit_B, _ = measurable(rollout.prompts, self.method.quality, len(views) - 1)
            changed = [change(s) if fit else None for s, fit in zip(rollout.prompts.samples, fit_B, strict=True)]
            places = [b for b, sample in enumerate(changed) if sample is not None]
            if not places:
                return []
            kept = self._rescored(rollout, places, [s for s in changed if s is not None], scorer)
            return self._measure(kept, [start + b for b in places], views, scorer)

        return self.setting.over(work)

    def _rescored(self, rollout: Rollout, places: list[int], samples: list[Sample], scorer: Scorer) -> Rollout:
        """The responses to some prompts under the changed samples."""
        kept = replace(take(rollout, places), prompts=self.setting.encoder(samples))
        return replace(kept, logp_BGT=scorer.logp(kept, View()).clone())

    def _measure(self, rollout: Rollout, questions: list[int], views: Sequence[View], scorer: Scorer) -> list[Measured]:
        answered = self.method.scored is Scored.ANSWER
        scope_BGT = rollout.grades.answer_BGT if answered else rollout.mask_BGT
        measured_BG = scope_BGT.any(-1)
        found = [
            masked_mean((rollout.logp_BGT - logp).double(), scope_BGT, dim=-1)
            for logp in scorer.logps(rollout, views, measured_BG)
        ]
        s_ev, s_non = found[0], torch.stack(found[1:], -1)
        margin_BG = self.method.margin(s_ev, s_non, self.method.sigma_floor).masked_fill(~measured_BG, 0.0)
        reward_BG = self.method.reward(rollout, margin_BG, measured_BG)
        clip, self.method.reward_clip = self.method.reward_clip, None
        raw_BG = self.method.reward(rollout, margin_BG, measured_BG)
        self.method.reward_clip = clip
        return [
            Measured(
                questions[b], g, float(s_ev[b, g]), tuple(numbers(s_non[b, g])), float(margin_BG[b, g]),
                float(reward_BG[b, g]), float(raw_BG[b, g]), bool(rollout.grades.correct_BG[b, g]),
                rollout.grades.answers[b][g], int(rollout.mask_BGT[b, g].sum()), _area(rollout.prompts.samples[b]),
            )
            for b, g in measured_BG.nonzero().tolist()
        ]  # fmt: skip


def _area(sample: Sample) -> float:
    width, height = sample.images[0].size
    return evidence_box(sample)[0].area / (width * height)


def of_questions(rows: Sequence[Measured], values: Sequence[float], count: int) -> np.ndarray:
    """[Q] mean of a quantity over a question's responses; nan where none is measured.

    Args:
        values: one a row; nan does not count.
        count: number of questions, Q.
    """
    question, response = (np.array([getattr(row, k) for row in rows], dtype=int) for k in ("question", "response"))
    return by_question(count, question, response, np.array(values, dtype=float))
