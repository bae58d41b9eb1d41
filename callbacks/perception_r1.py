"""Perception-R1: a response is rewarded for the annotated visual key facts that it states.

Where METHODS is silent:
1. 20-grams are of lower-case words between white space; a response of fewer than 20 words repeats nothing.
2. Samples without key facts and failed requests have a share of 0.

Suffixes: B prompts, G group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.services.annotations import Bare
from mmcredit.services.judge import FactJudge, FactRequest, spread
from mmcredit.services.service import Ahead, Place
from mmcredit.types import Rollout, Sample, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer


def repetition(text: str, n: int = 20) -> float:
    """1 - distinct / all n-grams of words, in 0..1; 0 where there are none.

    Example: ``repetition("a b a b a b", 2)`` -> 1 - 2/5.
    """
    words = text.lower().split()
    grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


class PerceptionR1(CreditCallback):
    """R = accuracy + .1 format + .7 share of key facts - 2 repetition. METHODS section 8.

    Args:
        judge: says what share of the key facts a response states.
        format_weight: weight of a kept template.
        facts_weight: weight of the share.
        repetition_weight: penalty of a response that only repeats itself, at least 0.
        ngram: words a repeated piece has, at least 1.

    Raises:
        UserError: a value out of its range.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2506.07218v3"

    def __init__(
        self,
        judge: FactJudge,
        format_weight: float = 0.1,
        facts_weight: float = 0.7,
        repetition_weight: float = 2.0,
        ngram: int = 20,
    ) -> None:
        if repetition_weight < 0 or ngram < 1:
            raise UserError(
                f"callbacks.perception_r1: repetition_weight={repetition_weight} must be at least 0, "
                f"ngram={ngram} at least 1"
            )
        self.judge, self.format_weight, self.facts_weight = Ahead(judge), format_weight, facts_weight
        self.repetition_weight, self.ngram = repetition_weight, ngram
        self.bare = Bare("Perception-R1", "no key_facts, and a share of 0; give them with the data", key_facts)

    def on_rollout(self, rollout: Rollout, record: Record) -> None:
        self.judge.ask(self.requests(rollout))

    def on_reward(self, rollout: Rollout, scorer: Scorer, record: Record) -> Tensor:
        with record.stage("judge"):
            scores = self.judge.collect(self.requests(rollout))
        correct_BG = rollout.grades.correct_BG
        facts_BG, known_BG = spread(scores, correct_BG.shape)
        repeated = [[repetition(text, self.ngram) for text in group] for group in rollout.responses.texts]
        repeated_BG = torch.tensor(repeated).view(correct_BG.shape)
        record.responses("perception_r1/facts", facts_BG, known_BG)
        record.responses("perception_r1/repetition", repeated_BG)
        record.failures("perception_r1", [score.failure for score in scores.values()])
        record.scalar("perception_r1/no_facts_rate", self.bare.rate(rollout.prompts.samples))
        reward_BG = correct_BG + self.format_weight * rollout.grades.format_BG
        return reward_BG + self.facts_weight * facts_BG - self.repetition_weight * repeated_BG

    def requests(self, rollout: Rollout) -> dict[Place, FactRequest]:
        """What the judge is asked, by prompt and response."""
        return {
            (b, g): FactRequest(sample, text, facts)
            for b, (sample, texts) in enumerate(zip(rollout.prompts.samples, rollout.responses.texts, strict=True))
            if (facts := key_facts(sample))
            for g, text in enumerate(texts)
        }


def key_facts(sample: Sample) -> tuple[str, ...]:
    """The annotated facts, one a line of ``meta["key_facts"]``."""
    return tuple(filter(None, map(str.strip, sample.meta.get("key_facts", "").splitlines())))
