"""RLSD against a literal reference on lists, the schedule, and its promises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.callbacks.hinted_case import ATOL, HintedScores, permuted, random_case, responses_of, right_line
from torch import Tensor

from mmcredit.callbacks.rlsd import RLSD
from mmcredit.credit import Record
from mmcredit.types import Rollout, UserError


def literal_rlsd(
    rollout: Rollout,
    advantage: Tensor,
    scores: HintedScores,
    lam: float = 0.5,
    decay_steps: int | None = 50,
    weight_low: float = 0.8,
    weight_high: float = 1.2,
) -> Tensor:
    """METHODS section 6, number by number."""
    now = lam if decay_steps is None else lam * max(0, decay_steps - rollout.step) / decay_steps
    credit = advantage.clone()
    for b, g, length in responses_of(rollout):
        if (line := right_line(rollout, b)) is None:
            continue
        for t, teacher in enumerate(scores.of(rollout, b, g, line)[:length]):
            a, d = float(advantage[b, g, t]), teacher - float(rollout.logp_BGT[b, g, t])
            sign = (a > 0) - (a < 0)
            credit[b, g, t] = a * ((1 - now) + now * min(max(math.exp(sign * d), weight_low), weight_high))
    return credit


OPTIONS: list[dict[str, Any]] = [
    {},
    {"lam": 1.0, "decay_steps": None},
    {"decay_steps": 10},
    {"weight_low": 0.5, "weight_high": 3.0, "decay_steps": 200},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_against_literal_reference(options: dict[str, Any], seed: int) -> None:
    (rollout, advantage), scores = random_case(seed), HintedScores()
    found = RLSD(**options).on_advantage(rollout, advantage, scores, Record())
    torch.testing.assert_close(found, literal_rlsd(rollout, advantage, scores, **options), rtol=0, atol=ATOL)
    assert torch.equal(found.sign(), advantage.sign())


def test_strength_fades_with_the_rollout_step_and_then_nothing_is_scored() -> None:
    (rollout, advantage), strengths = random_case(0), []
    for step in (0, 25, 50, 99):
        record, scores = Record(), HintedScores()
        found = RLSD().on_advantage(replace(rollout, step=step), advantage, scores, record)
        strengths.append(record.scalars["rlsd/strength"])
        assert bool(scores.asked) is (step < 50) and torch.equal(found, advantage) is (step >= 50)
    assert strengths == [0.5, 0.25, 0.0, 0.0]


def test_only_rows_with_credit_and_a_gold_answer_are_scored() -> None:
    for seed in range(6):
        (rollout, advantage), scores = random_case(seed), HintedScores()
        RLSD().on_advantage(rollout, advantage, scores, Record())
        for b, g, _, image in scores.asked:
            assert advantage[b, g].any() and right_line(rollout, b) is not None and image == "Original"
        scores = HintedScores()
        assert not RLSD().on_advantage(rollout, torch.zeros_like(advantage), scores, Record()).any()
        assert not scores.asked


@pytest.mark.parametrize("seed", range(6))
def test_permuting_a_group_permutes_the_result(seed: int) -> None:
    (rollout, advantage), order = random_case(seed, group=5), [3, 1, 4, 0, 2]
    first = RLSD().on_advantage(rollout, advantage, HintedScores(), Record())
    second = RLSD().on_advantage(permuted(rollout, order), advantage[:, order], HintedScores(), Record())
    assert torch.equal(second, first[:, order])


def test_recorded_metrics() -> None:
    (rollout, advantage), record = random_case(4), Record()
    RLSD(template="{answer}").on_advantage(rollout, advantage, HintedScores(), record)
    assert set(record.scalars) == {f"rlsd/{key}" for key in ("strength", "gain", "clip_share", "unhinted_rate")}
    missing = [right_line(rollout, b) is None for b in range(rollout.shape[0])]
    assert record.scalars["rlsd/unhinted_rate"] == pytest.approx(sum(missing) / len(missing))
    assert len(RLSD().extra_views(0)) == 1 and RLSD().refresh_every == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": 1.5}, "callbacks.rlsd.lam=1.5 must be in 0..1"),
        ({"decay_steps": 0}, "callbacks.rlsd.decay_steps=0 at least 1"),
        ({"weight_high": 0.9}, "callbacks.rlsd.weight_high=0.9"),
        ({"template": ""}, "callbacks.rlsd.template='' must contain"),
        ({"refresh_every": None}, "callbacks.rlsd.refresh_every=None must be"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        RLSD(**options)
