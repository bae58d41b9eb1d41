"""RLCSD against a literal reference on lists, its two averages, and its promises."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.callbacks.hinted_case import (
    ATOL,
    PICTURE,
    HintedScores,
    make_rollout,
    permuted,
    random_case,
    responses_of,
    right_line,
    wrong_lines,
)
from torch import Tensor

from mmcredit.callbacks import rlcsd
from mmcredit.callbacks.rlcsd import RLCSD, rlcsd_advantage, token_shift
from mmcredit.credit import Record
from mmcredit.types import Rollout, Sample, UserError

Token = tuple[int, int, int]


def literal_rlcsd(
    rollout: Rollout,
    advantage: Tensor,
    scores: HintedScores,
    max_negatives: int = 4,
    beta: float = 1.0,
    lam: float = 0.5,
    tau: float = 0.02,
    delta: float = 0.02,
    bound: float = 2.0,
    separate: bool = True,
    zero_rows: bool = True,
    **_: float,
) -> tuple[dict[Token, float], set[Token]]:
    """Advantage of every token of responses that are not dropped, before averaging, and which are selected."""
    credit, selected = {}, set()
    for b, g, length in responses_of(rollout):
        right, wrong = right_line(rollout, b), wrong_lines(rollout, b, g)[:max_negatives]
        if not (right and wrong) or not (advantage[b, g].any() or (separate and zero_rows)):
            continue
        plus, minus = (scores.of(rollout, b, g, right), [scores.of(rollout, b, g, line) for line in wrong])
        for t in range(length):
            e = plus[t] - (math.log(sum(math.exp(row[t]) for row in minus)) - math.log(len(wrong)))
            r = min(max(beta * lam * math.tanh(e / tau), -bound), bound)
            a, token = float(advantage[b, g, t]), (b, g, t)
            credit[token] = a
            if abs(r) > delta:
                selected.add(token)
                credit[token] = max(a + r, 0.0) if a > 0 else min(a + r, 0.0) if a < 0 else 0.0
    return credit, selected


OPTIONS: list[dict[str, Any]] = [
    {},
    {"max_negatives": 1},
    {"beta": 3.0, "tau": 0.3, "bound": 1.0},
    {"delta": 0.3, "tau": 0.5, "eta": 2.0},
    {"lam": 0.1, "tau": 1.0, "delta": 0.0},
    {"separate": False},
    {"delta": 0.1, "tau": 0.5, "zero_rows": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(12))
def test_against_literal_reference(options: dict[str, Any], seed: int) -> None:
    (rollout, advantage), scores = random_case(seed), HintedScores()
    found = RLCSD(**options).on_advantage(rollout, advantage, scores, Record())
    credit, selected = literal_rlcsd(rollout, advantage, scores, **options)
    total, n = int(rollout.mask_BGT.sum()), max(len(selected), 1)
    others, expected = max(len(credit.keys() - selected), 1), torch.zeros_like(advantage)
    for token, value in credit.items():
        factor = options.get("eta", 1.0) * total / n if token in selected else total / others
        expected[token] = value * (factor if options.get("separate", True) else 1.0)
    torch.testing.assert_close(found, expected, rtol=0, atol=ATOL * total)


@pytest.mark.parametrize("eta", [1.0, 0.5])
@pytest.mark.parametrize("seed", range(12))
def test_the_token_mean_is_two_means(seed: int, eta: float) -> None:
    """Any token loss that grows with the advantage: eta x mean over selected + mean over the other kept tokens."""
    options = {"tau": 0.5, "delta": 0.1, "eta": eta}
    (rollout, advantage), scores = random_case(seed), HintedScores()
    slope = torch.rand(rollout.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = RLCSD(**options).on_advantage(rollout, advantage, scores, Record())
    if not rollout.mask_BGT.any():
        return
    credit, selected = literal_rlcsd(rollout, advantage, scores, **options)
    first = [value * float(slope[token]) for token, value in credit.items() if token in selected]
    second = [value * float(slope[token]) for token, value in credit.items() if token not in selected]
    expected = sum(
        eta * sum(part) / len(part) if k == 0 else sum(part) / len(part)
        for k, part in enumerate((first, second))
        if part
    )
    assert float((found * slope).sum() / rollout.mask_BGT.sum()) == pytest.approx(expected, abs=ATOL)


def test_shift_and_advantage_by_hand() -> None:
    """.5 tanh(1) = .380797; tanh(.03) x .5 = .014996 is below delta; 2 is the bound."""
    contrast = torch.tensor([0.02, -0.02, 0.0006, 9.0, -9.0], dtype=torch.float64)
    expected = torch.tensor([0.380797, -0.380797, 0.0, 0.5, -0.5], dtype=torch.float64)
    torch.testing.assert_close(token_shift(contrast, 0.5, 0.02, 0.02), expected, rtol=0, atol=ATOL)
    assert token_shift(contrast, 5.0, 0.02, 0.02)[-2:].tolist() == [2.0, -2.0]
    advantage, shift = torch.tensor([1.0, 0.3, -1.0, -0.3, 0.0, -0.0]), torch.tensor([-0.5, -0.5, 0.5, 0.5, 0.5, -0.5])
    assert rlcsd_advantage(advantage, shift).tolist() == [0.5, 0.0, -0.5, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_sign_is_kept_or_lost_to_zero_and_dropped_responses_have_none(options: dict[str, Any]) -> None:
    for seed in range(12):
        rollout, advantage = random_case(seed)
        found = RLCSD(**options).on_advantage(rollout, advantage, HintedScores(), Record())
        assert (found * advantage >= 0).all() and not found[advantage == 0].any()
        for b, g, _ in responses_of(rollout):
            if right_line(rollout, b) is None or not wrong_lines(rollout, b, g):
                assert not found[b, g].any()


def test_equal_rewards_stay_zero_and_cost_nothing_where_no_denominator_needs_them() -> None:
    rollout, advantage = random_case(0, group=6)
    for options, asked in (({}, True), ({"zero_rows": False}, False), ({"separate": False}, False)):
        scores = HintedScores()
        assert not RLCSD(**options).on_advantage(rollout, torch.zeros_like(advantage), scores, Record()).any()
        assert bool(scores.asked) is asked


@pytest.mark.parametrize("seed", range(6))
def test_permuting_a_group_permutes_the_result(seed: int) -> None:
    (rollout, advantage), order = random_case(seed, group=5), [3, 1, 4, 0, 2]
    first = RLCSD().on_advantage(rollout, advantage, HintedScores(), Record())
    second = RLCSD().on_advantage(permuted(rollout, order), advantage[:, order], HintedScores(), Record())
    torch.testing.assert_close(second, first[:, order], rtol=0, atol=1e-9)


def test_denominators_are_those_of_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    (rollout, advantage), scores, options = random_case(3, group=5), HintedScores(), {"tau": 0.5, "delta": 0.1}
    whole, ranks = RLCSD(**options).on_advantage(rollout, advantage, scores, Record()), [slice(0, 1), slice(1, 9)]
    counts: list[Tensor] = []
    monkeypatch.setattr(rlcsd, "across_ranks", lambda values: counts.append(values) or values)
    for r in ranks:
        RLCSD(**options).on_advantage(rollout.select(r), advantage[r], scores, Record())
    together = torch.cat(counts)
    monkeypatch.setattr(rlcsd, "across_ranks", lambda values: together)
    found = [RLCSD(**options).on_advantage(rollout.select(r), advantage[r], scores, Record()) for r in ranks]
    torch.testing.assert_close(torch.cat(found), whole, rtol=0, atol=1e-9)


def test_recorded_metrics() -> None:
    samples = [Sample("0", (PICTURE,), "q", "2"), Sample("1", (PICTURE,), "q", "red")]
    answers = [["2", "7", "red"], ["red", "Red", "blue"]]
    rollout = make_rollout(samples, [[4] * 3] * 2, answers, [[True, False, False], [True, True, False]])
    advantage, record = torch.tensor([0.3, -1.0, -0.2], dtype=torch.float64)[None, :, None].expand(2, 3, 4), Record()
    method = RLCSD(max_negatives=2)
    method.on_advantage(rollout, advantage, HintedScores(), record)
    keys = ("contrast", "negatives", "selected_share", "zeroed_share", "dropped_rate")
    assert set(record.scalars) == {f"rlcsd/{key}" for key in keys}
    assert record.per_response["rlcsd/negatives"].tolist() == [[2, 1, 1], [1, 1, 0]]
    assert record.scalars["rlcsd/dropped_rate"] == pytest.approx(1 / 6)
    assert 0 < record.scalars["rlcsd/zeroed_share"] < 1 and 0.5 < record.scalars["rlcsd/selected_share"] <= 1
    assert len(method.extra_views(0)) == 3 and method.refresh_every == 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_negatives": 0}, "callbacks.rlcsd.max_negatives=0 must be 1, 2, 3 or 4"),
        ({"tau": 0.0}, "tau=0.0 must be above 0"),
        ({"delta": -0.1}, "delta=-0.1"),
        ({"template": "x"}, "callbacks.rlcsd.template='x' must contain"),
        ({"refresh_every": 0}, "callbacks.rlcsd.refresh_every=0 must be"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        RLCSD(**options)
