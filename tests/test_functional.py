from __future__ import annotations

import math
import random

import pytest
import torch

from mmcredit.functional import group_advantage, k3, log_ratio, masked_mean, stable_rng, stable_seed, zero_variance

EXP_20 = 485165195.40979  # exp(20)


def advantage_by_loops(rewards: list[list[float]], eps: float = 1e-6) -> list[list[float]]:
    """METHODS section 0, group by group."""
    advantages = []
    for group in rewards:
        mean = sum(group) / len(group)
        std = math.sqrt(sum((r - mean) ** 2 for r in group) / (len(group) - 1))
        equal = all(r == group[0] for r in group)
        advantages.append([0.0 if equal else (r - mean) / (std + eps) for r in group])
    return advantages


@pytest.mark.parametrize("group", [2, 3, 5, 8, 16])
def test_group_advantage_is_the_loop(group: int) -> None:
    rng = random.Random(group)
    rewards = [[rng.uniform(-1, 2) for _ in range(group)] for _ in range(20)]
    rewards += [[float(rng.random() < 0.5) for _ in range(group)] for _ in range(20)]
    got = group_advantage(torch.tensor(rewards, dtype=torch.float64))
    torch.testing.assert_close(got, torch.tensor(advantage_by_loops(rewards), dtype=torch.float64), rtol=0, atol=1e-12)


def test_group_advantage_worked_example() -> None:
    # mean .25, sample variance (.75^2 + 3 * .25^2) / 3 = .25, std .5: .75 / .5 and -.25 / .5
    got = group_advantage(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    torch.testing.assert_close(got, torch.tensor([[1.5, -0.5, -0.5, -0.5]]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_group_advantage_eps_is_added_to_the_deviation(eps: float) -> None:
    got = group_advantage(torch.tensor([[1.0, 0.0]], dtype=torch.float64), eps)
    assert got[0, 0].item() == pytest.approx(0.5 / (math.sqrt(0.5) + eps), abs=1e-12)


@pytest.mark.parametrize("n", [3, 6, 7])
@pytest.mark.parametrize("r", [0.3, 0.7, 0.9])
def test_equal_rewards_give_exactly_zero(n: int, r: float) -> None:
    assert group_advantage(torch.full((2, n), r)).tolist() == [[0.0] * n] * 2


def test_equal_group_beside_unequal_group() -> None:
    got = group_advantage(torch.tensor([[0.9, 0.9, 0.9], [0.0, 0.9, 0.9]]))
    assert got[0].tolist() == [0.0, 0.0, 0.0]
    assert got[1, 0] < 0 < got[1, 1] == got[1, 2]


def test_group_of_one_is_refused() -> None:
    with pytest.raises(AssertionError, match="at least two"):
        group_advantage(torch.ones(3, 1))


def test_zero_variance() -> None:
    assert zero_variance(torch.tensor([[0.3, 0.3, 0.3], [0.3, 0.3, 0.4]])).tolist() == [True, False]


def test_rounding_makes_no_advantage() -> None:
    """Saturated gates that differ by 1e-6 would become advantages of .5."""
    rewards = torch.tensor([[1.0, 1.0 - 1e-6, 1.0 - 6e-8], [1.0, 1.0 - 1e-4, 1.0], [-800.0, -800.001, -800.0]])
    assert zero_variance(rewards).tolist() == [True, False, True]
    assert not group_advantage(rewards)[0].any() and group_advantage(rewards)[1].abs().max() > 0.5


@pytest.mark.parametrize("seed", range(3))
def test_k3_is_the_formula(seed: int) -> None:
    rng = random.Random(seed)
    pairs = [(rng.uniform(-30, 0), rng.uniform(-30, 0)) for _ in range(200)]
    want = []
    for a, b in pairs:
        x = min(max(b - a, -20.0), 20.0)
        want.append(min(max(math.exp(x) - x - 1, 0.0), 10.0))
    got = k3(*torch.tensor(pairs, dtype=torch.float64).T)
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64), rtol=0, atol=1e-12)


def test_k3_worked_values() -> None:
    # x = ln 2: 2 - ln 2 - 1; x = -ln 2: .5 + ln 2 - 1
    half = math.log(2)
    assert k3(torch.tensor([-1.0, -1.0 + half, -1.0]), torch.tensor([-1.0 + half, -1.0, -1.0])).tolist() == (
        pytest.approx([1 - half, half - 0.5, 0.0], abs=1e-6)
    )


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        (0.0, 100.0, 10.0),
        (0.0, -100.0, 10.0),  # exp(-20) + 20 - 1, clamped
        (-1.0, -math.inf, 10.0),
        (-math.inf, -1.0, 10.0),
        (0.0, -9.0, math.exp(-9) + 8),  # not clamped
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_k3_far_apart(a: float, b: float, want: float, dtype: torch.dtype) -> None:
    assert k3(torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)).item() == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize(("base", "ratio"), [(-100.0, EXP_20), (100.0, 1 / EXP_20), (-math.inf, EXP_20)])
def test_log_ratio_keeps_the_exponential_finite(base: float, ratio: float) -> None:
    assert log_ratio(torch.tensor(0.0), torch.tensor(base)).exp().item() == pytest.approx(ratio, rel=1e-5)


def test_k3_gradient_is_zero_where_clamped_and_finite_everywhere() -> None:
    logp = torch.tensor([-100.0, -1.0, -0.5], requires_grad=True)
    k3(logp, torch.tensor([0.0, -0.5, -90.0])).sum().backward()
    assert logp.grad[0] == logp.grad[2] == 0
    assert logp.grad[1].item() == pytest.approx(1 - math.exp(0.5), abs=1e-6)  # d/da of exp(b-a) - (b-a) - 1


@pytest.mark.parametrize("dim", [None, 0, 1, -1, (0, 2)])
def test_masked_mean_is_the_loop(dim: int | tuple[int, ...] | None) -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(3, 4, 5, generator=generator, dtype=torch.float64)
    mask = torch.rand(3, 4, 5, generator=generator) < 0.4
    mask[0], mask[:, 1], mask[..., 2] = False, False, False  # some means over nothing
    dims = {d % 3 for d in ((0, 1, 2) if dim is None else (dim,) if isinstance(dim, int) else dim)}
    kept: dict[tuple[int, ...], list[float]] = {}
    for index in ((i, j, k) for i in range(3) for j in range(4) for k in range(5)):
        cell = kept.setdefault(tuple(n for d, n in enumerate(index) if d not in dims), [])
        if mask[index]:
            cell.append(values[index].item())
    got = masked_mean(values, mask, dim)
    assert got.shape == tuple(s for d, s in enumerate(values.shape) if d not in dims)
    for index, cell in kept.items():
        assert got[index].item() == pytest.approx(sum(cell) / len(cell) if cell else 0.0, abs=1e-12)


def test_masked_mean_of_nothing_is_zero() -> None:
    assert masked_mean(torch.ones(2, 3), torch.zeros(2, 3, dtype=torch.bool)).item() == 0.0


@pytest.mark.parametrize(
    ("parts", "seed"),
    [
        ((0, "sample-7", 3, 1, "sampling"), 7381815890711950001),
        (("é",), 7317610273420446871),
        ((), 8238016292129134938),
    ],
)
def test_stable_seed_is_the_same_on_every_machine(parts: tuple[object, ...], seed: int) -> None:
    assert stable_seed(*parts) == seed


def test_stable_seed_tells_parts_apart() -> None:
    parts = [("1", "2"), ("12",), ("12", ""), ("", "12"), ("2", "1"), (1, 2, 0), (1, 20), (12, 0)]
    seeds = {stable_seed(*p) for p in parts}
    assert len(seeds) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_stable_rng_is_named_by_its_parts_alone() -> None:
    first = [stable_rng("mask", 3).random() for _ in range(3)]
    random.seed(5)
    assert [stable_rng("mask", 3).random() for _ in range(3)] == first == [first[0]] * 3
    assert stable_rng("mask", 4).random() != first[0]
