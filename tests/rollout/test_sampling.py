from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from mmcredit.rollout.sampling import SamplingLaw, draw_uniforms, pick
from mmcredit.types import UserError

NOTHING = torch.tensor([], dtype=torch.long)
BELOW_ONE = math.nextafter(1.0, 0.0)


def probabilities_by_loops(logits: list[float], law: SamplingLaw, forbidden: list[int]) -> list[float]:
    """Temperature, forbidden tokens and top-p with lists; no two logits may be equal."""
    weights = [0.0 if i in forbidden else math.exp(x / law.temperature) for i, x in enumerate(logits)]
    p = [w / sum(weights) for w in weights]
    kept, mass = set(), 0.0
    for i in sorted(range(len(p)), key=lambda i: -p[i]):
        if mass >= law.top_p:
            break
        kept.add(i)
        mass += p[i]
    return [x / mass if i in kept else 0.0 for i, x in enumerate(p)]


# --- law ----------------------------------------------------------------------------------------------------------


def test_law_by_hand() -> None:
    # T=.6: exp(10/3), exp(5/3), 1, exp(-5/3) = 28.0316, 5.2945, 1, .1889;
    # of their sum 34.515: .8122, .1534, .0290, .0055
    # top_p=.9 keeps two (.8122 < .9 <= .9656): 1/(1 + exp(-5/3)) and its complement
    law = SamplingLaw(group=2, temperature=0.6, top_p=0.9)
    p = law.probabilities(torch.tensor([[2.0, 1.0, 0.0, -1.0], [-1.0, 0.0, 1.0, 2.0]]), NOTHING)
    assert p[0].tolist() == pytest.approx([0.8411309, 0.1588691, 0.0, 0.0], abs=1e-7)
    assert p[1].tolist() == pytest.approx(p[0].flip(0).tolist(), abs=1e-12)
    assert p[0, 2:].tolist() == [0.0, 0.0]


def test_law_without_top_p_by_hand() -> None:
    p = SamplingLaw(group=2, temperature=0.6).probabilities(torch.tensor([[2.0, 1.0, 0.0, -1.0]]), NOTHING)
    assert p[0].tolist() == pytest.approx([0.812158, 0.153397, 0.028973, 0.005472], abs=1e-6)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("top_p", [1.0, 0.95, 0.5, 1e-9])
def test_law_is_the_loop(temperature: float, top_p: float) -> None:
    law = SamplingLaw(group=2, temperature=temperature, top_p=top_p)
    logits = torch.randn(20, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
    forbidden = [0, 7, 29]
    got = law.probabilities(logits.clone(), torch.tensor(forbidden))
    want = [probabilities_by_loops(row, law, forbidden) for row in logits.tolist()]
    torch.testing.assert_close(got, torch.tensor(want, dtype=torch.float64), rtol=0, atol=1e-12)
    assert got.dtype == torch.float64


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("top_p", [1.0, 0.9])
def test_forbidden_tokens_have_probability_exactly_zero(temperature: float, top_p: float) -> None:
    law = SamplingLaw(group=1, temperature=temperature, top_p=top_p)
    p = law.probabilities(torch.tensor([[100.0, 1.0, 50.0, 1.5]]), torch.tensor([0, 2]))
    assert p[0, [0, 2]].tolist() == [0.0, 0.0]
    assert p.sum().item() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_law_leaves_the_logits_as_they_are(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]], dtype=dtype)
    SamplingLaw(group=2, top_p=0.5).probabilities(logits, torch.tensor([2]))
    assert logits.tolist() == [[1.0, 2.0, 3.0]]


def test_top_p_keeps_the_token_that_reaches_the_mass() -> None:
    logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]], dtype=torch.float64).log()
    assert SamplingLaw(group=2, top_p=0.75).probabilities(logits, NOTHING)[0].tolist() == pytest.approx(
        [2 / 3, 1 / 3, 0, 0], abs=1e-12
    )
    assert SamplingLaw(group=2, top_p=0.7501).probabilities(logits, NOTHING)[0].count_nonzero() == 3


def test_large_logits_stay_finite() -> None:
    p = SamplingLaw(group=2, temperature=0.01).probabilities(torch.tensor([[3e4, -3e4, 2.9999e4]]), NOTHING)
    assert p[0].tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-12)


def test_greedy_takes_the_most_likely_token_that_is_allowed() -> None:
    law = SamplingLaw(group=1, temperature=0)
    p = law.probabilities(torch.tensor([[0.1, 5.0, 4.0], [3.0, 1.0, 2.0]]), torch.tensor([1]))
    assert p.tolist() == [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    for u in (0.0, 0.5, BELOW_ONE):
        assert pick(p, torch.tensor([u, u], dtype=torch.float64)).tolist() == [2, 0]


# --- pick ---------------------------------------------------------------------------------------------------------


def uniforms(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("u", [0.0, math.ulp(0.0), 1e-300, 0.25, 0.5, 0.75, BELOW_ONE, 1.0])  # 1: out of contract, safe
@pytest.mark.parametrize(
    "p",
    [
        [0.0, 0.25, 0.0, 0.25, 0.0, 0.0, 0.5, 0.0],
        [0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0],
        [0.0, 1e-300, 0.0, 1.0, 0.0],
        [0.0, 1 / 3, 0.0, 1 / 3, 1 / 3, 0.0],
        [0.0, *[0.1] * 10, 0.0],
    ],
)
def test_pick_never_returns_an_impossible_token(p: list[float], u: float) -> None:
    assert p[pick(torch.tensor([p], dtype=torch.float64), uniforms(u)).item()] > 0


@pytest.mark.parametrize("seed", range(3))
def test_pick_never_returns_an_impossible_token_of_random_laws(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    p = torch.rand(500, 40, generator=generator, dtype=torch.float64) ** 8
    p[torch.rand(500, 40, generator=generator) < 0.7] = 0
    p[:, 17] += 1e-12
    p = p / p.sum(-1, keepdim=True)
    for u in (torch.rand(500, generator=generator, dtype=torch.float64), uniforms(*[0.0] * 500)):
        assert (p.gather(1, pick(p, u)[:, None]) > 0).all()
    assert (p.gather(1, pick(p, uniforms(*[BELOW_ONE] * 500))[:, None]) > 0).all()


def test_pick_inverts_the_cumulative_law() -> None:
    p = torch.tensor([[0.25, 0.0, 0.5, 0.25]], dtype=torch.float64)
    want = {0.0: 0, 0.2: 0, 0.25: 2, 0.5: 2, 0.7499: 2, 0.75: 3, 0.99: 3}  # intervals are closed on the left
    assert {u: pick(p, uniforms(u)).item() for u in want} == want


def test_pick_takes_each_row_for_itself() -> None:
    p = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5]], dtype=torch.float64)
    assert pick(p, uniforms(0.9, 0.1, 0.4, 0.6)).tolist() == [0, 1, 0, 1]


def test_frequencies_of_evenly_spread_draws_are_the_law() -> None:
    count = 2000
    p = torch.tensor([0.37, 0.0, 0.1, 0.0, 0.03, 0.5], dtype=torch.float64)
    u = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    share = pick(p.expand(count, -1), u).bincount(minlength=6) / count
    torch.testing.assert_close(share.double(), p, rtol=0, atol=1 / count)  # a boundary moves at most one draw


def test_frequencies_of_drawn_uniforms_are_the_law() -> None:
    law = SamplingLaw(group=4, temperature=0.6, top_p=0.9, max_new_tokens=1000)
    u = draw_uniforms(0, ["a", "b"], 0, law).flatten()
    p = law.probabilities(torch.tensor([[2.0, 1.0, 0.0, -1.0]]), NOTHING).expand(len(u), -1)
    share = pick(p, u).bincount(minlength=4) / len(u)
    assert share[2:].tolist() == [0.0, 0.0]
    assert share[0].item() == pytest.approx(0.8411, abs=4 * math.sqrt(0.8411 * 0.1589 / len(u)))  # 4 sigma


# --- uniforms -----------------------------------------------------------------------------------------------------


def test_uniforms_do_not_depend_on_the_batch() -> None:
    law, names = SamplingLaw(group=3, max_new_tokens=20), ["a", "b", "c", "d"]
    whole = draw_uniforms(5, names, 2, law)
    assert whole.shape == (12, 20)
    for i, name in enumerate(names):
        assert torch.equal(draw_uniforms(5, [name], 2, law), whole[3 * i : 3 * i + 3])
    assert torch.equal(draw_uniforms(5, names[::-1], 2, law)[:3], whole[9:])


def test_uniforms_do_not_depend_on_the_group_or_the_global_generator() -> None:
    torch.manual_seed(1)
    small = draw_uniforms(5, ["a"], 2, SamplingLaw(group=2, max_new_tokens=20))
    state = torch.get_rng_state()
    large = draw_uniforms(5, ["a"], 2, SamplingLaw(group=6, max_new_tokens=20))
    assert torch.equal(large[:2], small)
    assert torch.equal(torch.get_rng_state(), state)


def test_uniforms_differ_by_seed_name_step_and_response() -> None:
    law = SamplingLaw(group=2, max_new_tokens=20)
    calls = [(0, ["a"], 0), (1, ["a"], 0), (0, ["b"], 0), (0, ["a"], 1)]
    rows = {tuple(row) for call in calls for row in draw_uniforms(*call, law).tolist()}
    assert len(rows) == 8


def test_uniforms_lie_in_the_half_open_unit_interval() -> None:
    u = draw_uniforms(0, ["a", "b"], 0, SamplingLaw(group=4, max_new_tokens=1000))
    assert u.dtype == torch.float64
    assert ((u >= 0) & (u < 1)).all()
    assert u.mean().item() == pytest.approx(0.5, abs=4 / math.sqrt(12 * u.numel()))  # 4 sigma


# --- values out of their range ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"group": 0}, r"rollout\.group=0 .*must be positive"),
        ({"group": 2, "max_new_tokens": 0}, r"rollout\.max_new_tokens=0 must be positive"),
        ({"group": 2, "temperature": -0.1}, r"rollout\.temperature=-0\.1 must be >= 0"),
        ({"group": 2, "top_p": 0.0}, r"rollout\.top_p=0\.0 in \(0, 1\]"),
        ({"group": 2, "top_p": 1.01}, r"rollout\.top_p=1\.01 in \(0, 1\]"),
        (
            {"group": 8, "temperature": 0.0},
            r"rollout\.temperature=0 gives 8 equal responses.*rollout\.temperature=1\.0",
        ),
    ],
)
def test_bad_values_are_named(values: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SamplingLaw(**values)


def test_single_keeps_the_rest_of_the_law() -> None:
    law = SamplingLaw(group=8, temperature=0.7, top_p=0.9, max_new_tokens=5)
    assert law.single() == SamplingLaw(group=1, temperature=0.7, top_p=0.9, max_new_tokens=5)
