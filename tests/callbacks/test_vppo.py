"""VPPO against a literal reference on lists, numbers by hand, and its promises."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from methods import reordered
from ragged import GivenScores, random_rollout, rollout_of
from ranks import on_two_ranks
from torch import Tensor

from mmcredit.callbacks.vppo import VPPO, vppo_keep, vppo_weights
from mmcredit.credit import Record
from mmcredit.scoring.edits import CoarseInk, PixelMask
from mmcredit.scoring.views import View
from mmcredit.types import Rollout, UserError

ATOL = 1e-6  # float64 against Python floats


def literal_vppo(
    rollout: Rollout,
    masked: Tensor,
    advantage: Tensor,
    keep: float = 0.4,
    beta_min: float = 0.9,
    micro_batch: int | None = None,
) -> list[list[list[float]]]:
    """METHODS section 1, number by number; one rank."""
    b, g, t = rollout.shape
    measured, dependences, scores = [], {}, []
    for i in range(b):
        for j in range(g):
            length = int(rollout.mask_BGT[i, j].sum())
            if not rollout.prompts.samples[i].images or not length:
                continue
            measured.append((i, j))
            dependences[i, j] = []
            for k in range(length):
                x = max(-20.0, min(20.0, float(masked[i, j, k]) - float(rollout.logp_BGT[i, j, k])))
                dependences[i, j].append(max(0.0, min(10.0, math.exp(x) - x - 1)))
            scores.append(sum(dependences[i, j]) / length)
    alphas = [1.0] * len(scores)
    if len(scores) >= 2 and max(scores) - min(scores) > 1e-6:
        scaled = [(s - min(scores)) / (max(scores) - min(scores)) for s in scores]
        size = micro_batch or len(scaled)
        for first in range(0, len(scaled), size):
            piece = scaled[first : first + size]
            beta_max = beta_min + (1 - beta_min) / (sum(piece) / len(piece) + 1e-8)
            alphas[first : first + size] = [beta_min + n * (beta_max - beta_min) for n in piece]
    result = advantage.tolist()
    for (i, j), alpha in zip(measured, alphas, strict=True):
        count = math.ceil(Fraction(str(keep)) * len(dependences[i, j]))
        largest = sorted(range(len(dependences[i, j])), key=lambda k: (-dependences[i, j][k], k))[:count]
        for k in range(t):
            result[i][j][k] *= alpha if k in largest else 0.0
    return result


OPTIONS: list[dict[str, Any]] = [
    {},
    {"keep": 1.0},
    {"keep": 0.1},
    {"beta_min": 0.5},
    {"beta_min": 1.0},
    {"scope": "rank"},
    {"scope": "rank", "micro_batch": 2},
    {"scope": "rank", "micro_batch": 1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(15))
def test_equals_the_literal_reference(options: dict[str, Any], seed: int) -> None:
    rollout, masked, advantage = random_rollout(seed)
    found = VPPO(**options).on_advantage(rollout, advantage, GivenScores(masked), Record())
    expected = literal_vppo(rollout, masked, advantage, **{k: v for k, v in options.items() if k != "scope"})
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=ATOL)


def test_weights_by_hand() -> None:
    score = torch.tensor([0.0, 0.2, 0.8, 1.0], dtype=torch.float64)
    alpha, beta_max = vppo_weights(score, score)
    torch.testing.assert_close(alpha, alpha.new_tensor([0.90, 0.94, 1.06, 1.10]), rtol=0, atol=ATOL)
    torch.testing.assert_close(beta_max, torch.full_like(alpha, 1.1), rtol=0, atol=ATOL)


def test_micro_batches_of_one_make_the_weights_vanish() -> None:
    """All but the least dependent response get 1: why the scope is the batch."""
    score = torch.tensor([0.0, 0.2, 0.8, 1.0], dtype=torch.float64)
    alpha, _ = vppo_weights(score, score, micro_batch=1)
    torch.testing.assert_close(alpha, alpha.new_tensor([0.9, 1.0, 1.0, 1.0]), rtol=0, atol=ATOL)


@pytest.mark.parametrize("score", [[], [0.3], [0.3, 0.3], [0.3, 0.3 + 9e-7]], ids=str)
def test_no_spread_gives_equal_weights(score: list[float]) -> None:
    found, _ = vppo_weights(torch.tensor(score, dtype=torch.float64), torch.tensor(score, dtype=torch.float64))
    assert found.tolist() == [1.0] * len(score)


def test_two_ranks_give_the_weights_of_one() -> None:
    score = torch.rand(9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    whole, _ = vppo_weights(score, score)
    parts = torch.cat([vppo_weights(part, score)[0] for part in (score[:4], score[4:])])
    assert torch.equal(parts, whole) and float(whole.mean()) == pytest.approx(1.0, abs=1e-6)


def of_rank(rank: int) -> list[Tensor]:
    """Two batches: every second prompt is on this rank; rank 1 has none at all."""
    found = []
    for rows in (slice(rank, None, 2), slice(0, None if rank == 0 else 0)):
        rollout, masked, advantage = random_rollout(14)
        part = reordered(rollout, list(range(rollout.shape[0]))[rows])
        found.append(VPPO().on_advantage(part, advantage[rows], GivenScores(masked[rows]), Record()))
    return found


def test_two_ranks_are_one(tmp_path: Path) -> None:
    rollout, masked, advantage = random_rollout(14)
    whole = VPPO().on_advantage(rollout, advantage, GivenScores(masked), Record())
    (halves, alone), (others, nothing) = on_two_ranks(of_rank, tmp_path)
    assert len(halves) and len(others) and torch.equal(halves, whole[::2]) and torch.equal(others, whole[1::2])
    assert torch.equal(alone, whole) and not len(nothing)


def test_kept_tokens_by_hand() -> None:
    """ceil(.4 T): 5 -> 2, 4 -> 2, 1 -> 1, 0 -> 0; ties go to the earlier token; padding is never kept."""
    dependence = torch.tensor([[1, 3, 3, 3, 0], [0, 0, 0, 0, 9], [5, 9, 9, 9, 9], [9, 9, 9, 9, 9]]).double()[None]
    mask = torch.tensor([[1] * 5, [1, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0] * 5]).bool()[None]
    expected = torch.tensor([[0, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0] * 5]).bool()[None]
    assert torch.equal(vppo_keep(dependence, mask), expected)


@pytest.mark.parametrize("length", range(1, 200))
def test_the_number_kept_is_exact(length: int) -> None:
    """No token more because .4 x 35 is above 14 in floating point."""
    kept = vppo_keep(torch.rand(1, 1, length), torch.ones(1, 1, length, dtype=torch.bool))
    assert int(kept.sum()) == -(-2 * length // 5)


def test_small_dependences_keep_their_order() -> None:
    """In float32, exp(x) - x - 1 of x about 1e-4 is noise."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]) * 1e-4
    rollout = rollout_of([[[10] * 5]], torch.zeros(1, 1, 5), [True])
    kept = VPPO(keep=0.2).on_advantage(rollout, torch.ones(1, 1, 5), GivenScores(x.view(1, 1, 5)), Record())
    assert kept.tolist() == [[[0, 0, 0, 0, 1]]] and kept.dtype == torch.float32


def test_prompts_without_a_picture_are_left_alone() -> None:
    rollout = rollout_of([[[10, 11], [12]], [[13, 14, 15], []]], torch.zeros(2, 2, 3), [False, True])
    scorer, record = GivenScores(torch.rand(2, 2, 3)), Record()
    advantage = torch.ones(2, 2, 3) * rollout.mask_BGT
    found = VPPO().on_advantage(rollout, advantage, scorer, record)
    assert torch.equal(found[0], advantage[0]) and not torch.equal(found[1], advantage[1])
    assert scorer.where[0].tolist() == [[False, False], [True, False]]
    assert record.histograms["vppo/alpha"].tolist() == [1.0], "one measured response"


def test_views() -> None:
    rollout, masked, advantage = random_rollout(1)
    group, scorer = rollout.shape[1], GivenScores(masked)
    VPPO().on_advantage(rollout, advantage, scorer, Record())
    VPPO(corruption=CoarseInk()).on_advantage(rollout, advantage, scorer, Record())
    VPPO(per_response=True).on_advantage(rollout, advantage, scorer, Record())
    own = [View(image=PixelMask(0.5, (7, 3, g))) for g in range(group)]
    assert scorer.views == [View(image=PixelMask(0.5, (7, 3))), View(image=CoarseInk()), *own]
    assert all(not where[:, [h for h in range(group) if h != g]].any() for g, where in enumerate(scorer.where[2:]))
    assert VPPO().extra_views(7) == [View(image=PixelMask(0.5, (7, 0)))]


def test_one_draw_or_one_a_response_give_the_same_where_the_draw_does_not_matter() -> None:
    rollout, masked, advantage = random_rollout(2)
    one, own = (
        VPPO(per_response=own).on_advantage(rollout, advantage, GivenScores(masked), Record()) for own in (False, True)
    )
    assert torch.equal(one, own)


def test_recorded_metrics() -> None:
    """Two responses; the first depends more."""
    masked = torch.tensor([[[1.0, 0.0, -1.0, 0.0, 0.0], [0.0, 0.1, 0.0, 0.0, 0.0]]], dtype=torch.float64)
    rollout = rollout_of([[[10] * 5, [11] * 5]], torch.zeros(1, 2, 5, dtype=torch.float64), [True])
    record = Record()
    VPPO().on_advantage(rollout, torch.ones(1, 2, 5), GivenScores(masked), record)
    large, middle, small = math.e - 2, math.exp(-1), math.exp(0.1) - 1.1
    assert record.scalars == pytest.approx(
        {
            "vppo/alpha": 1.0,
            "vppo/alpha_min": 0.9,
            "vppo/alpha_max": 1.1,
            "vppo/beta_max": 1.1,
            "vppo/score": (large + middle + small) / 10,
            "vppo/threshold": middle / 2,
            "vppo/selected": (large + middle + small) / 4,
            "vppo/rejected": 0.0,
            "vppo/kept_rate": 0.4,
        },
        abs=ATOL,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"keep": 0.0}, "keep=0.0 must be above 0"),
        ({"keep": 1.1}, "keep=1.1 must be above 0, at most 1"),
        ({"beta_min": -0.1}, "beta_min=-0.1 in 0..1"),
        ({"scope": "group"}, "scope='group' does not exist; use one of batch, rank"),
        ({"micro_batch": 0}, "micro_batch=0 must be at least 1"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        VPPO(**options)
