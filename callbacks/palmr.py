"""PaLMR (V-GRPO): an answer is rewarded only where the response describes the picture better than a reference does.

A judge that reads a description of the picture compares each response with the sample's reference response; the binary
verdict gates the reward of the answer and of the format.

Where the paper is silent:
1. Ties, failed requests and samples without annotations count as not preferred.
2. Responses that are neither right nor well formed are not judged, in no form of the reward.
3. ``mix`` has the weights .2, .7, .1 as w, alpha - w, 1 - alpha.

Suffixes: B prompts, G group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.services.annotations import Bare
from mmcredit.services.judge import Comparison, Judge, Verdict
from mmcredit.services.service import Ahead, Place
from mmcredit.types import Rollout, Sample, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer


def gate(vis: Tensor, ans: Tensor, fmt: Tensor, alpha: float) -> Tensor:
    """[B, G] S_vis (alpha S_ans + (1 - alpha) S_fmt), in 0..1. METHODS section 7."""
    return vis * (alpha * ans + (1 - alpha) * fmt)


def bonus(vis: Tensor, ans: Tensor, fmt: Tensor, alpha: float, c: float = 0.5) -> Tensor:
    """[B, G] alpha S_ans + (1 - alpha) S_fmt, and c where the answer is right and the response preferred. METHODS
    section 7."""
    return alpha * ans + (1 - alpha) * fmt + c * ans * vis


def mix(vis: Tensor, ans: Tensor, fmt: Tensor, alpha: float, w: float = 0.2) -> Tensor:
    """[B, G] w S_vis + (alpha - w) S_ans + (1 - alpha) S_fmt. METHODS section 7."""
    return w * vis + (alpha - w) * ans + (1 - alpha) * fmt


class PaLMR(CreditCallback):
    """Reward gated by perceptual faithfulness. METHODS section 7.

    Args:
        judge: compares a response with the reference.
        form: (S_vis, S_ans, S_fmt, alpha) -> reward, all [B, G], scores 0 or 1: ``gate``, ``bonus`` or ``mix``.
        alpha: weight of the answer beside the format, 0..1.

    Raises:
        UserError: alpha outside 0..1.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2603.06652"

    def __init__(
        self, judge: Judge, form: Callable[[Tensor, Tensor, Tensor, float], Tensor] = gate, alpha: float = 0.9
    ) -> None:
        if not 0 <= alpha <= 1:
            raise UserError(f"callbacks.palmr.alpha={alpha} must lie in 0..1")
        self.judge, self.form, self.alpha = Ahead(judge), form, alpha
        fault = "no reference or no pseudo_ground_truth, and count as not preferred; give both with the data"
        self.bare = Bare("PaLMR", fault, annotated)

    def on_rollout(self, rollout: Rollout, record: Record) -> None:
        self.judge.ask(self.requests(rollout))

    def on_reward(self, rollout: Rollout, scorer: Scorer, record: Record) -> Tensor:
        with record.stage("judge"):
            verdicts = self.judge.collect(self.requests(rollout))
        grades = rollout.grades
        vis_BG, judged_BG = torch.zeros(grades.correct_BG.shape), torch.zeros_like(grades.correct_BG)
        for place, verdict in verdicts.items():
            vis_BG[place], judged_BG[place] = verdict.preferred is True, True
        self._report(rollout, record, verdicts, vis_BG, judged_BG)
        return self.form(vis_BG, grades.correct_BG.float(), grades.format_BG.float(), self.alpha)

    def requests(self, rollout: Rollout) -> dict[Place, Comparison]:
        """What the judge is asked, by prompt and response."""
        scored_BG, found = rollout.grades.correct_BG | rollout.grades.format_BG, dict[Place, Comparison]()
        for b, g in scored_BG.nonzero().tolist():
            sample = rollout.prompts.samples[b]
            if annotated(sample):
                reference, truth = sample.meta["reference"], sample.meta["pseudo_ground_truth"]
                found[b, g] = Comparison(sample, rollout.responses.texts[b][g], reference, truth)
        return found

    def _report(
        self, rollout: Rollout, record: Record, verdicts: dict[Place, Verdict], vis: Tensor, judged: Tensor
    ) -> None:
        record.responses("palmr/s_vis", vis, judged)
        record.scalar("palmr/judged_rate", judged.float().mean() if judged.numel() else 0.0)
        answered = [verdict for verdict in verdicts.values() if not verdict.failure]
        record.histogram("palmr/errors", torch.tensor([len(verdict.errors) for verdict in answered]))
        if verdicts:
            record.scalar("palmr/tie_rate", sum(v.tie for v in answered) / len(verdicts))
            record.failures("palmr", [v.failure for v in verdicts.values()])
        record.scalar("palmr/no_reference_rate", self.bare.rate(rollout.prompts.samples))


def annotated(sample: Sample) -> bool:
    """Whether there is something to compare with."""
    return "reference" in sample.meta and "pseudo_ground_truth" in sample.meta
