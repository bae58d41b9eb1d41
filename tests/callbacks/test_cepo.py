"""CEPO against a literal reference on lists, the image of the teacher, and its promises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.callbacks.hinted_case import (
    ATOL,
    HintedScores,
    permuted,
    random_case,
    rejected_line,
    responses_of,
    right_line,
)
from torch import Tensor

from mmcredit.callbacks.cepo import CEPO
from mmcredit.credit import Record
from mmcredit.scoring.edits import FeatureNull
from mmcredit.types import Rollout, UserError


def literal_cepo(
    rollout: Rollout,
    advantage: Tensor,
    scores: HintedScores,
    lam: float = 0.5,
    decay_steps: int | None = 25,
    weight_low: float = 0.8,
    weight_high: float = 1.2,
    teacher_image: FeatureNull | None = None,
) -> Tensor:
    """METHODS section 6, number by number."""
    now = lam if decay_steps is None else lam * max(0, decay_steps - rollout.step) / decay_steps
    image = "Original" if teacher_image is None else "FeatureNull"
    credit = advantage.clone()
    for b, g, length in responses_of(rollout):
        right, rejected = right_line(rollout, b), rejected_line(rollout, b, g)
        if right is None or rejected is None:
            continue
        pairs = zip(*(scores.of(rollout, b, g, line, image) for line in (right, rejected)), strict=True)
        for t, (plus, minus) in enumerate(list(pairs)[:length]):
            a = float(advantage[b, g, t])
            sign = (a > 0) - (a < 0)
            weight = min(max(math.exp(sign * (plus - minus)), weight_low), weight_high)
            credit[b, g, t] = a * ((1 - now) + now * weight)
    return credit


OPTIONS: list[dict[str, Any]] = [
    {},
    {"teacher_image": FeatureNull()},
    {"lam": 1.0, "decay_steps": None},
    {"decay_steps": 10},
    {"weight_low": 0.5, "weight_high": 3.0},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_against_literal_reference(options: dict[str, Any], seed: int) -> None:
    (rollout, advantage), scores = random_case(seed), HintedScores()
    found = CEPO(**options).on_advantage(rollout, advantage, scores, Record())
    torch.testing.assert_close(found, literal_cepo(rollout, advantage, scores, **options), rtol=0, atol=ATOL)
    assert torch.equal(found.sign(), advantage.sign())


def test_strength_fades_with_the_rollout_step_and_then_nothing_is_scored() -> None:
    rollout, advantage = random_case(0, group=6)
    for step, strength in ((0, 0.5), (5, 0.4), (25, 0.0)):
        record, scores = Record(), HintedScores()
        CEPO().on_advantage(replace(rollout, step=step), advantage, scores, record)
        assert record.scalars["cepo/strength"] == pytest.approx(strength) and bool(scores.asked) is (strength > 0)


def test_equal_rewards_stay_zero_and_are_not_scored() -> None:
    (rollout, advantage), scores = random_case(1), HintedScores()
    assert not CEPO().on_advantage(rollout, torch.zeros_like(advantage), scores, Record()).any()
    assert not scores.asked and len(CEPO().extra_views(0)) == 2 and CEPO().refresh_every == 10


@pytest.mark.parametrize("seed", range(6))
def test_permuting_a_group_permutes_the_result(seed: int) -> None:
    (rollout, advantage), order = random_case(seed, group=5), [3, 1, 4, 0, 2]
    first = CEPO().on_advantage(rollout, advantage, HintedScores(), Record())
    second = CEPO().on_advantage(permuted(rollout, order), advantage[:, order], HintedScores(), Record())
    assert torch.equal(second, first[:, order])


def test_recorded_metrics() -> None:
    (rollout, advantage), record = random_case(3), Record()
    CEPO().on_advantage(rollout, advantage, HintedScores(), record)
    assert set(record.scalars) == {f"cepo/{key}" for key in ("strength", "contrast", "clip_share", "unpaired_rate")}
    rows = responses_of(rollout)
    unpaired = [right_line(rollout, b) is None or rejected_line(rollout, b, g) is None for b, g, _ in rows]
    assert record.scalars["cepo/unpaired_rate"] == pytest.approx(sum(unpaired) / len(rows))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lam": -0.5}, "callbacks.cepo.lam=-0.5 must be in 0..1"),
        ({"weight_low": 1.1}, "callbacks.cepo.weight_low=1.1"),
        ({"template": "x"}, "callbacks.cepo.template='x' must contain"),
        ({"refresh_every": 0}, "callbacks.cepo.refresh_every=0 must be"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        CEPO(**options)
