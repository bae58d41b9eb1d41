"""SophiaVL-R1 against a literal reference, and its promises."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from judged_case import PICTURE, TableJudge, make_rollout, places, random_case

from mmcredit.callbacks.sophia import SophiaVLR1, trust
from mmcredit.credit import Record
from mmcredit.data.world.source import World
from mmcredit.services.judge import Score
from mmcredit.services.oracle_judge import OracleThinking
from mmcredit.types import Sample, UserError


@pytest.mark.parametrize("options", [{}, {"weight": 0.5, "decay_steps": 50, "min_answer": 0.6}])
@pytest.mark.parametrize("seed", range(20))
def test_reward_against_a_literal_reference(options, seed):
    """METHODS section 8, number by number."""
    weight, decay, least = options.get("weight", 0.3), options.get("decay_steps", 500), options.get("min_answer", 0.2)
    rng, rollout = random_case(seed)
    scores = {
        text: Score(rng.random()) if rng.random() < 0.8 else Score(failure="timeout")
        for group in rollout.responses.texts
        for text in group
    }
    judge = TableJudge(scores)
    reward = SophiaVLR1(judge, **options).on_reward(rollout, None, Record())
    asked = {r.response for r in judge.asked[0]} if judge.asked else set()
    for b, g in places(rollout):
        group = [
            (scores[t], bool(c)) for t, c in zip(rollout.responses.texts[b], rollout.grades.correct_BG[b], strict=True)
        ]
        right = [s.value for s, correct in group if correct and not s.failure]
        wrong = [s.value for s, correct in group if not correct and not s.failure]
        score, expected = group[g][0], float(rollout.reward_BG[b, g])
        if right and wrong and not score.failure and expected >= least:
            mu_c, mu_w = sum(right) / len(right), sum(wrong) / len(wrong)
            w = math.exp(mu_c - mu_w) if mu_c < mu_w else 1.0
            expected += weight * math.exp(-rollout.step / decay) * w * score.value
        assert float(reward[b, g]) == pytest.approx(expected, abs=1e-6)
        mixed = len({correct for _, correct in group}) == 2
        assert (rollout.responses.texts[b][g] in asked) is mixed


def test_trust_by_hand():
    think = torch.tensor([[0.9, 0.1, 0.5], [0.1, 0.9, 0.5], [0.3, 0.3, 0.3]])
    right = torch.tensor([[True, False, False], [True, False, False], [True, True, True]])
    torch.testing.assert_close(trust(think, right, ~right), torch.tensor([1.0, math.exp(0.1 - 0.7), 0.0]))


def test_groups_of_one_kind_and_poor_answers_are_left_alone():
    samples = [Sample(str(i), (PICTURE,), "q", "a") for i in range(3)]
    texts = [[f"{b}{g}" for g in range(2)] for b in range(3)]
    correct = [[True, True], [False, False], [True, False]]
    rollout = make_rollout(samples, texts, correct, correct, [[1.0, 1.0], [0.0, 0.5], [0.1, 0.2]])
    judge, record = TableJudge(dict.fromkeys(sum(texts, []), Score(1.0))), Record()
    method = SophiaVLR1(judge)
    method.on_rollout(rollout, record)
    reward = method.on_reward(rollout, None, record)
    assert [r.response for r in judge.asked[0]] == texts[2] and len(judge.asked) == 1
    assert reward.tolist() == [[1, 1], [0, 0.5], pytest.approx([0.1, 0.5])]  # an R_ans of .1 is too poor
    assert record.scalars["sophia/think_right"] == record.scalars["sophia/think_wrong"] == 1


def test_the_thinking_reward_fades():
    sample = Sample("x", (PICTURE,), "q", "a")
    rollout = make_rollout([sample], [["a", "b"]], [[True, False]], [[True, True]])
    method = SophiaVLR1(TableJudge({"a": Score(1.0), "b": Score(0.0)}))
    rewards = [float(method.on_reward(replace(rollout, step=s), None, Record())[0, 0]) for s in (0, 500, 5000)]
    assert rewards == pytest.approx([1.3, 1 + 0.3 / math.e, 1 + 0.3 * math.exp(-10)])


def test_the_oracle_scores_the_share_of_claims_that_hold():
    sample = next(s for s in World("val", 40, seed=6) if s.family == "spatial")
    fact = sample.meta["key_facts"]
    texts = [[f"{fact} . \\boxed{{x}}", f"{fact} . {fact} . \\boxed{{x}}", "\\boxed{x}"]]
    rollout = make_rollout([sample], texts, [[True, True, False]], [[True] * 3])
    record = Record()
    SophiaVLR1(OracleThinking()).on_reward(rollout, None, record)
    assert record.per_response["sophia/think"].tolist() == [[1.0, 0.5, 0.0]]


def test_a_wrong_decay_is_named():
    with pytest.raises(UserError, match=r"callbacks.sophia.decay_steps=0 must be above 0"):
        SophiaVLR1(TableJudge({}), decay_steps=0)
