"""SophiaVL-R1 (Trust-GRPO): right answers are also rewarded for their thinking, less so the later it is in training and
the less a group's thinking scores can be trusted.

A group's scores are distrusted where wrong answers think better, by their judge, than right ones.

Where METHODS is silent:
1. R_ans is the reward so far: the rule's, or what methods before this one made of it.
2. Responses whose request failed count for neither mean and get no thinking reward; a group needs a judged right *and*
   a judged wrong response.

Suffixes: B prompts, G group.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import masked_mean
from mmcredit.services.judge import ThinkingJudge, ThinkingRequest, spread
from mmcredit.services.service import Ahead, Place
from mmcredit.types import Rollout, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer


def trust(think_BG: Tensor, right_BG: Tensor, wrong_BG: Tensor) -> Tensor:
    """[B] exp(mu_c - mu_w) where the mean score of right responses mu_c is below that of wrong ones mu_w, else 1; 0
    for groups without right or without wrong responses. METHODS section 8."""
    gap = masked_mean(think_BG, right_BG, dim=1) - masked_mean(think_BG, wrong_BG, dim=1)
    return gap.clamp(max=0).exp() * (right_BG.any(1) & wrong_BG.any(1))


class SophiaVLR1(CreditCallback):
    """R = R_ans + .3 exp(-step / 500) w R_think, for answers with R_ans of at least .2. METHODS section 8.

    Args:
        judge: scores the thinking of a response, 0..1.
        weight: of the thinking reward at the first step.
        decay_steps: rollout steps over which it falls by a factor e, above 0.
        min_answer: least R_ans with a thinking reward.

    Raises:
        UserError: decay_steps not above 0.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2505.17018"

    def __init__(
        self, judge: ThinkingJudge, weight: float = 0.3, decay_steps: float = 500.0, min_answer: float = 0.2
    ) -> None:
        if decay_steps <= 0:
            raise UserError(f"callbacks.sophia.decay_steps={decay_steps} must be above 0")
        self.judge, self.weight, self.decay_steps, self.min_answer = Ahead(judge), weight, decay_steps, min_answer

    def on_rollout(self, rollout: Rollout, record: Record) -> None:
        self.judge.ask(self.requests(rollout))

    def on_reward(self, rollout: Rollout, scorer: Scorer, record: Record) -> Tensor:
        with record.stage("judge"):
            scores = self.judge.collect(self.requests(rollout))
        correct_BG = rollout.grades.correct_BG
        think_BG, known_BG = spread(scores, correct_BG.shape)
        right_BG, wrong_BG = known_BG & correct_BG, known_BG & ~correct_BG
        trust_B = trust(think_BG, right_BG, wrong_BG)
        decay = math.exp(-rollout.step / self.decay_steps)
        bonus_BG = self.weight * decay * trust_B[:, None] * think_BG * (rollout.reward_BG >= self.min_answer)
        record.responses("sophia/think", think_BG, known_BG)
        record.responses("sophia/bonus", bonus_BG, bonus_BG > 0)
        record.histogram("sophia/trust", trust_B[trust_B > 0])
        record.scalar("sophia/decay", decay)
        for name, where_BG in (("right", right_BG), ("wrong", wrong_BG)):
            if where_BG.any():
                record.scalar(f"sophia/think_{name}", think_BG[where_BG].mean())
        record.failures("sophia", [score.failure for score in scores.values()])
        return rollout.reward_BG + bonus_BG

    def requests(self, rollout: Rollout) -> dict[Place, ThinkingRequest]:
        """What the judge is asked, by prompt and response: groups with right and wrong answers only."""
        correct_BG = rollout.grades.correct_BG
        mixed_BG = (correct_BG.any(1) & ~correct_BG.all(1))[:, None].expand_as(correct_BG)
        samples, texts = rollout.prompts.samples, rollout.responses.texts
        return {(b, g): ThinkingRequest(samples[b], texts[b][g]) for b, g in mixed_BG.nonzero().tolist()}
