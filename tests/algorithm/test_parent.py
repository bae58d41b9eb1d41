from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mmcredit.algorithm.parent import Parent
from mmcredit.algorithm.reduction import ConstantHorizon, Reduction, SequenceMean, TokenMean
from mmcredit.algorithm.statistics import describe, same_answer_different_reward, unfinished
from mmcredit.algorithm.surrogate import clipped_surrogate, token_ratio
from mmcredit.credit import Record
from mmcredit.functional import group_advantage
from mmcredit.types import Grades, Prompts, Responses, Rollout, Sample, UserError

REDUCTIONS = [TokenMean(), SequenceMean(), ConstantHorizon(horizon=7)]


def a_parent(**changes: object) -> Parent:
    values = {
        "advantage": group_advantage, "reduction": TokenMean(), "clip_low": 0.2, "clip_high": 0.28, "dual_clip": 3.0,
        "kl_coef": 0.0, "entropy_coef": 0.0, "mini_batch": 4, "micro_batch": 2, "epochs": 1,
    }  # fmt: skip
    return Parent(**(values | changes))


# --- surrogate ----------------------------------------------------------------------------------------------------


def surrogate_of_a_token(logp: float, old: float, a: float, *, low: float, high: float, dual: float | None) -> float:
    """METHODS section 0, one token."""
    rho = math.exp(min(max(logp - old, -20.0), 20.0))
    if rho < 1 - low:
        clipped = 1 - low
    elif rho > 1 + high:
        clipped = 1 + high
    else:
        clipped = rho
    loss = -(rho * a if rho * a < clipped * a else clipped * a)
    if a < 0 and dual is not None and -dual * a < loss:
        return -dual * a
    return loss


@pytest.mark.parametrize("dual", [None, 1.5, 3.0])
@pytest.mark.parametrize(("low", "high"), [(0.2, 0.2), (0.2, 0.28), (0.0, 0.0), (3e-4, 4e-4)])
def test_surrogate_is_the_loop(low: float, high: float, dual: float | None) -> None:
    rng = random.Random(0)
    shape = (3, 4, 25)
    count = math.prod(shape)
    logp = [-rng.expovariate(0.5) for _ in range(count)]
    old = [x + rng.choice([0.0, rng.gauss(0, 0.2), rng.gauss(0, 1.5), rng.gauss(0, 30)]) for x in logp]
    a = [rng.choice([0.0, rng.gauss(0, 1), 1.0, -1.0]) for _ in range(count)]
    want = [surrogate_of_a_token(*values, low=low, high=high, dual=dual) for values in zip(logp, old, a, strict=True)]
    logp_BGT, old_BGT, a_BGT = (torch.tensor(x, dtype=torch.float64).view(shape) for x in (logp, old, a))
    got = clipped_surrogate(token_ratio(logp_BGT, old_BGT, a_BGT), a_BGT, low, high, dual)
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64).view(shape), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("ratio", "advantage", "want"),
    [
        (1.0, 2.0, -2.0),
        (1.1, 2.0, -2.2),
        (1.5, 2.0, -2.56),  # clipped at 1.28
        (0.5, 2.0, -1.0),  # the smaller one: not clipped
        (0.5, -2.0, 1.6),  # clipped at .8
        (1.5, -2.0, 3.0),  # not clipped
        (5.0, -2.0, 6.0),  # dual clip: 3 * 2 instead of 10
        (5.0, 2.0, -2.56),  # no dual clip above zero
        (5.0, 0.0, 0.0),
    ],
)
def test_surrogate_worked_values(ratio: float, advantage: float, want: float) -> None:
    assert a_parent().surrogate(torch.tensor(ratio), torch.tensor(advantage)).item() == pytest.approx(want, abs=1e-5)


def test_without_dual_clip_nothing_bounds_negative_advantages() -> None:
    loss = a_parent(dual_clip=None).surrogate(torch.tensor(5.0), torch.tensor(-2.0))
    assert loss.item() == pytest.approx(10.0, abs=1e-5)


def test_surrogate_gradient_on_policy_is_minus_the_advantage() -> None:
    old = torch.tensor([-1.0, -2.0, -3.0])
    logp, a = old.clone().requires_grad_(), torch.tensor([1.5, -0.5, 0.0])
    a_parent().surrogate(token_ratio(logp, old, a), a).sum().backward()
    torch.testing.assert_close(logp.grad, -a, rtol=0, atol=1e-6)


def test_surrogate_gradient_is_zero_where_clipped() -> None:
    shift = torch.tensor([1.0, -1.0, 2.0])  # clipped above, clipped below, dual clip
    logp = shift.clone().requires_grad_()
    a_parent().surrogate(token_ratio(logp, torch.zeros(3), logp), torch.tensor([1.0, -1.0, -1.0])).sum().backward()
    assert logp.grad.tolist() == [0.0, 0.0, 0.0]


# --- reduction ----------------------------------------------------------------------------------------------------


def reduced(reduction: Reduction, loss_BGT: Tensor, mask_BGT: Tensor) -> float:
    weights = reduction.weights(mask_BGT, reduction.size(mask_BGT))
    return (loss_BGT * weights).sum().item()


def reduced_by_loops(reduction: Reduction, losses: list[list[float]]) -> float:
    """``losses``: the valid tokens of every response that has any."""
    if isinstance(reduction, TokenMean):
        flat = [x for row in losses for x in row]
        return sum(flat) / len(flat)
    if isinstance(reduction, SequenceMean):
        return sum(sum(row) / len(row) for row in losses) / len(losses)
    assert isinstance(reduction, ConstantHorizon)
    return sum(x for row in losses for x in row) / (len(losses) * reduction.horizon)


def ragged(seed: int, shape: tuple[int, int, int] = (5, 3, 9)) -> tuple[Tensor, Tensor]:
    """Random losses [B, G, T] and the mask of random lengths, 1 and T among them."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, shape[2] + 1, shape[:2], generator=generator)
    lengths[0, 0], lengths[-1, -1] = 1, shape[2]
    mask = torch.arange(shape[2]) < lengths[..., None]
    return torch.randn(shape, generator=generator), mask


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_reduction_is_the_loop(reduction: Reduction, seed: int) -> None:
    loss, mask = ragged(seed)
    rows = [
        row_loss[row_mask].tolist() for row_loss, row_mask in zip(loss.flatten(0, 1), mask.flatten(0, 1), strict=True)
    ]
    assert reduced(reduction, loss, mask) == pytest.approx(reduced_by_loops(reduction, rows), abs=1e-6)


@pytest.mark.parametrize(
    ("reduction", "want"), [(TokenMean(), 0.25), (SequenceMean(), 0.5), (ConstantHorizon(horizon=5), 0.1)], ids=repr
)
def test_lengths_one_and_three(reduction: Reduction, want: float) -> None:
    loss = torch.tensor([[[1.0, 9.0, 9.0], [0.0, 0.0, 0.0]]])
    mask = torch.tensor([[[True, False, False], [True, True, True]]])
    assert reduced(reduction, loss, mask) == pytest.approx(want, abs=1e-7)


def random_split(count: int, rng: random.Random) -> list[list[int]]:
    """The numbers below ``count`` in random order, cut at random places."""
    order = rng.sample(range(count), count)
    cuts = sorted(rng.sample(range(1, count), rng.randint(0, count - 1)))
    return [order[i:j] for i, j in zip([0, *cuts], [*cuts, count], strict=True)]


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=repr)
@pytest.mark.parametrize("seed", range(5))
def test_any_split_into_micro_batches_gives_the_same_sum(reduction: Reduction, seed: int) -> None:
    loss, mask = ragged(seed, (8, 4, 11))
    size, whole = reduction.size(mask), reduced(reduction, loss, mask)
    for parts in [[[i] for i in range(8)], *(random_split(8, random.Random(seed)) for _ in range(5))]:
        total = sum((loss[part] * reduction.weights(mask[part], size)).sum().item() for part in parts)
        assert total == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=repr)
def test_denominators_of_ranks_add_up(reduction: Reduction) -> None:
    _, mask = ragged(0)
    assert reduction.size(mask[:2]) + reduction.size(mask[2:]) == reduction.size(mask)


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=repr)
def test_padding_does_not_change_the_result(reduction: Reduction) -> None:
    loss, mask = ragged(1)
    wider = torch.nn.functional.pad(mask, (0, 20))
    assert reduced(reduction, torch.nn.functional.pad(loss, (0, 20), value=3.0), wider) == pytest.approx(
        reduced(reduction, loss, mask), abs=1e-6
    )


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=repr)
def test_weights_are_zero_outside_the_mask_and_positive_inside(reduction: Reduction) -> None:
    _, mask = ragged(2)
    weights = reduction.weights(mask, reduction.size(mask))
    assert torch.equal(weights > 0, mask)


@pytest.mark.parametrize("reduction", REDUCTIONS, ids=repr)
def test_empty_mini_batch_reduces_to_zero(reduction: Reduction) -> None:
    assert reduced(reduction, torch.ones(2, 2, 3), torch.zeros(2, 2, 3, dtype=torch.bool)) == 0.0


# --- values out of their range ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clip_low": -0.1}, r"algorithm\.clip_low=-0\.1.*0 <= clip_low < 1"),
        ({"clip_low": 1.0}, r"algorithm\.clip_low=1\.0"),
        ({"clip_high": -0.01}, r"clip_high=-0\.01.*clip_high >= 0"),
        ({"dual_clip": 1.0}, r"algorithm\.dual_clip=1\.0 must be above 1, or null"),
        ({"dual_clip": 0.0}, r"algorithm\.dual_clip=0\.0"),
        ({"mini_batch": 0}, r"algorithm\.mini_batch=0 must be at least 1"),
        ({"micro_batch": 0}, r"algorithm\.micro_batch=0 must be at least 1"),
        ({"micro_batch": -2}, r"algorithm\.micro_batch=-2 must be at least 1"),
        ({"epochs": 0}, r"algorithm\.epochs=0 must be at least 1"),
        ({"micro_batch": 3}, r"mini_batch=4 is not a multiple of .*micro_batch=3; use a micro_batch of 1, 2, 4"),
        ({"micro_batch": 8}, r"mini_batch=4 is not a multiple of algorithm\.micro_batch=8"),
    ],
)
def test_bad_values_are_named(changes: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        a_parent(**changes)


@pytest.mark.parametrize("horizon", [0, -3])
def test_bad_horizon_is_named(horizon: int) -> None:
    with pytest.raises(UserError, match=rf"algorithm\.reduction\.horizon={horizon} must be at least 1"):
        ConstantHorizon(horizon)


@pytest.mark.parametrize(
    "changes",
    [{"clip_low": 0.0, "clip_high": 0.0}, {"dual_clip": None}, {"micro_batch": 4}, {"micro_batch": 1}, {"epochs": 3}],
)
def test_values_on_the_edge_are_taken(changes: dict[str, float | None]) -> None:
    parent = a_parent(**changes)
    assert {name: getattr(parent, name) for name in changes} == changes


# --- statistics ---------------------------------------------------------------------------------------------------


@pytest.fixture
def rollout() -> Rollout:
    """Four prompts, two responses each of lengths 1..3; every second response was cut off."""
    b, g, t = 4, 2, 3
    lengths = torch.tensor([[1, 2], [3, 3], [2, 1], [3, 2]])
    texts = tuple(tuple("xyz"[: n - (j == 0)] for j, n in enumerate(row)) for row in lengths.tolist())
    spans = tuple(
        tuple(
            tuple((i, i + 1) for i in range(len(text))) + (((len(text), len(text)),) if j == 0 else ())
            for j, text in enumerate(group)
        )
        for group in texts
    )
    mask = torch.arange(t) < lengths[..., None]
    correct = torch.tensor([[True, True], [False, False], [True, False], [True, False]])
    rule = torch.tensor([[1.0, 1.0], [0.1, 0.0], [1.0, 0.0], [1.0, 0.0]])
    answers = (("2", "2"), ("3", "4"), ("2", "5"), ("2", "2"))
    return Rollout(
        prompts=Prompts(tuple(Sample(str(i), (), "?", "2") for i in range(b)), (), (), ()),
        responses=Responses(torch.zeros(b, g, t, dtype=torch.long), mask, texts, spans),
        grades=Grades(
            rule,
            correct,
            torch.tensor([[True] * 2] * 2 + [[False] * 2] * 2),
            answers,
            mask & False,
            (("right", "right"), ("unparsable", "wrong"), ("right", "timed_out"), ("right", "unparsable")),
        ),
        step=0,
        logp_BGT=torch.zeros(b, g, t),
        reward_BG=torch.tensor([[1.0, 0.9], [0.1, 0.1], [0.5, 0.5], [1.0, 0.0]]),
    )


def test_describe(rollout: Rollout) -> None:
    record = Record()
    advantage = group_advantage(rollout.reward_BG)
    describe(rollout, advantage, record)
    want = {
        "reward/total": 4.1 / 8,
        "reward/rule": 4.1 / 8,
        "reward/accuracy": 4 / 8,
        "reward/format": 0.5,
        "reward/unparsable_rate": 2 / 8,
        "reward/timeout_rate": 1 / 8,
        "reward/non_constant_rate": 3 / 4,  # of the rule's reward: all but the first group
        "reward/zero_variance_rate": 2 / 4,  # of the current reward: the groups in the middle
        "reward/all_right_rate": 1 / 4,
        "reward/all_wrong_rate": 1 / 4,
        "reward/same_answer_different_reward_rate": 2 / 4,  # the first and the last group
        "rollout/length": 17 / 8,
        "rollout/unfinished_rate": 0.5,
        "credit/advantage": 0.0,
    }
    assert record.scalars == pytest.approx(want, abs=1e-6)
    assert torch.equal(record.per_response["reward/total"], rollout.reward_BG)
    assert torch.equal(record.per_response["reward/rule"], rollout.grades.reward_BG)
    assert record.histograms["rollout/length"].tolist() == [1, 2, 3, 3, 2, 1, 3, 2]
    assert torch.equal(record.histograms["credit/advantage"], advantage.flatten())


def test_unfinished_responses_lack_the_end_token(rollout: Rollout) -> None:
    assert unfinished(rollout).tolist() == [[False, True]] * 4


@pytest.mark.parametrize(
    ("answers", "rewards", "want"),
    [
        ([["a", "a"]], [[1.0, 1.0]], 0.0),
        ([["a", "a"]], [[1.0, 0.5]], 1.0),
        ([["a", "b"]], [[1.0, 0.5]], 0.0),
        ([["a", "b"], ["b", "a"]], [[1.0, 0.0], [1.0, 0.0]], 0.0),  # the same answers, but in two groups
        ([["a", "b", "a"], ["a", "b", "b"]], [[1.0, 0.0, 0.2], [1.0, 0.0, 0.0]], 0.5),
    ],
)
def test_same_answer_different_reward(
    rollout: Rollout, answers: list[list[str]], rewards: list[list[float]], want: float
) -> None:
    grades = replace(rollout.grades, answers=tuple(map(tuple, answers)))
    assert same_answer_different_reward(replace(rollout, grades=grades, reward_BG=torch.tensor(rewards))) == want
