"""Perception-R1 against a literal reference, and its promises."""

from __future__ import annotations

import logging

import pytest
from judged_case import PICTURE, TableJudge, make_rollout, places, random_case

from mmcredit.callbacks.perception_r1 import PerceptionR1, key_facts, repetition
from mmcredit.credit import Record
from mmcredit.data.world.source import World
from mmcredit.services.judge import Score
from mmcredit.services.oracle_judge import OracleFacts
from mmcredit.types import Sample, UserError


def literal_repetition(text: str, n: int) -> float:
    words, seen, total = text.lower().split(), [], 0
    for start in range(len(words)):
        gram = words[start : start + n]
        if len(gram) == n:
            total += 1
            if gram not in seen:
                seen.append(gram)
    return 1 - len(seen) / total if total else 0.0


@pytest.mark.parametrize("ngram", [20, 3])
@pytest.mark.parametrize("seed", range(10))
def test_reward_against_a_literal_reference(ngram, seed):
    rng, rollout = random_case(seed)
    shares = [Score(0.0), Score(0.5), Score(1.0), Score(failure="timeout")]
    scores = {text: rng.choice(shares) for group in rollout.responses.texts for text in group}
    record = Record()
    reward = PerceptionR1(TableJudge(scores), ngram=ngram).on_reward(rollout, None, record)
    failed, asked = 0, 0
    for b, g in places(rollout):
        text, annotated = rollout.responses.texts[b][g], bool(rollout.prompts.samples[b].meta)
        share = scores[text].value if annotated and scores[text].failure is None else 0.0
        asked, failed = asked + annotated, failed + (annotated and scores[text].failure is not None)
        acc, fmt = float(rollout.grades.correct_BG[b, g]), float(rollout.grades.format_BG[b, g])
        expected = acc + 0.1 * fmt + 0.7 * share - 2 * literal_repetition(text, ngram)
        assert float(reward[b, g]) == pytest.approx(expected, abs=1e-6)
    assert record.scalars["perception_r1/failed_rate"] == pytest.approx(failed / max(asked, 1))


def test_repetition_by_hand():
    assert repetition("a b A b a b", 2) == pytest.approx(1 - 2 / 5)
    assert repetition("one two", 3) == repetition("", 1) == 0
    assert repetition("x " * 50) == pytest.approx(1 - 1 / 31)


def test_the_oracle_finds_the_facts_of_a_true_response():
    """All in a complete response, one less in the reference, none in an empty one."""
    world = World("val", 40, seed=4)
    samples = [world[i] for i in range(40)]
    texts = [[" . ".join(key_facts(s)) + " .", s.meta["reference"], "\\boxed{1}"] for s in samples]
    rollout = make_rollout(samples, texts, [[True] * 3] * 40, [[False] * 3] * 40)
    record = Record()
    reward = PerceptionR1(OracleFacts()).on_reward(rollout, None, record)
    facts = record.per_response["perception_r1/facts"]
    for b, sample in enumerate(samples):
        n = len(key_facts(sample))
        assert facts[b].tolist() == pytest.approx([1, (n - 1) / n, 0])
    assert reward.flatten().tolist() == pytest.approx((1 + 0.7 * facts).flatten().tolist())


def test_samples_without_facts_are_counted_and_named_once(caplog):
    rollout = make_rollout([Sample("bare", (PICTURE,), "q", "a")], [["a", "b"]], [[True, False]], [[True, True]])
    judge, record = TableJudge({}), Record()
    method = PerceptionR1(judge)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            method.on_rollout(rollout, record)
            reward = method.on_reward(rollout, None, record)
    assert reward.tolist() == [pytest.approx([1.1, 0.1])] and not judge.asked
    assert caplog.text.count("(e.g. bare) have no key_facts") == 1
    assert record.scalars["perception_r1/no_facts_rate"] == 1


@pytest.mark.parametrize("options", [{"repetition_weight": -1.0}, {"ngram": 0}])
def test_a_mistake_is_named(options):
    (key,) = options
    with pytest.raises(UserError, match=f"callbacks.perception_r1.*{key}={options[key]}"):
        PerceptionR1(TableJudge({}), **options)
