"""Every parent of configs/algorithm against loops written from METHODS section 0: loss, gradient, watched numbers."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from functools import cache

import hydra
import pytest
import torch
from hydra.utils import instantiate
from torch import Tensor

from mmcredit.algorithm.objective import loss_terms
from mmcredit.algorithm.overlong import OverlongPenalty
from mmcredit.algorithm.parent import Parent
from mmcredit.algorithm.surrogate import sampled_entropy
from mmcredit.credit import Record
from mmcredit.models.head import TokenScores
from mmcredit.types import Grades, Prompts, Responses, Rollout, UserError

HORIZON = 48  # rollout.max_new_tokens of the default configuration


@dataclass(frozen=True)
class Row:
    """A line of the table of METHODS section 0."""

    baseline: str  # std | mean | others
    low: float
    high: float
    dual: float | None
    reduction: str  # token | sequence | constant
    kl: float
    sequence_ratio: bool = False


TABLE = {
    "grpo": Row("std", 0.2, 0.2, 3.0, "token", 0.0),  # .01 in the table: the default of the laptop builds no reference
    "dapo": Row("std", 0.2, 0.28, 3.0, "token", 0.0),
    "dr_grpo": Row("mean", 0.2, 0.2, None, "constant", 0.0),
    "gspo": Row("std", 3e-4, 4e-4, None, "sequence", 0.0, sequence_ratio=True),
    "rloo": Row("others", 0.2, 0.2, None, "token", 0.01),
}


@cache
def parent(name: str, *overrides: str) -> Parent:
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = hydra.compose("fit", overrides=["run_dir=.", f"algorithm={name}", *overrides])
    return instantiate(config.algorithm)


# --- the reference -------------------------------------------------------------------------------------------------


def advantage_by_loops(rewards: list[float], baseline: str) -> list[float]:
    n, mean = len(rewards), sum(rewards) / len(rewards)
    if all(r == rewards[0] for r in rewards):
        return [0.0] * n
    if baseline == "std":
        std = math.sqrt(sum((r - mean) ** 2 for r in rewards) / (n - 1))
        return [(r - mean) / (std + 1e-6) for r in rewards]
    if baseline == "mean":
        return [r - mean for r in rewards]
    return [r - sum(rewards[:i] + rewards[i + 1 :]) / (n - 1) for i, r in enumerate(rewards)]


def k3_by_loops(a: float, b: float) -> tuple[float, float, bool]:
    """Value, derivative by a, and whether a clamp bit."""
    x = min(max(b - a, -20.0), 20.0)
    value = math.exp(x) - x - 1
    return (10.0, 0.0, True) if value > 10 else (value, 1 - math.exp(x), False)


def surrogate_by_loops(rho: float, a: float, row: Row) -> tuple[float, float]:
    """Loss of a token and its derivative by logp (d rho / d logp = rho)."""
    clipped = min(max(rho, 1 - row.low), 1 + row.high)
    free = rho * a <= clipped * a
    loss, slope = (-rho * a, -rho * a) if free else (-clipped * a, 0.0)
    if row.dual is not None and a < 0 and -row.dual * a < loss:
        return -row.dual * a, 0.0
    return loss, slope


@dataclass
class Case:
    """One response a list entry, [B][G][T_i]; rewards [B][G]."""

    logp: list[list[list[float]]]
    old: list[list[list[float]]]
    ref: list[list[list[float]]]
    entropy: list[list[list[float]]]
    rewards: list[list[float]]


def by_loops(case: Case, row: Row, kl: float, entropy_coef: float, full: bool) -> tuple[dict[str, float], list[float]]:
    """Loss terms and watched means, and the gradient by every log-prob, response by response."""
    flat = [(b, g) for b, group in enumerate(case.logp) for g in range(len(group))]
    tokens = sum(len(case.logp[b][g]) for b, g in flat)
    found = dict.fromkeys(("policy_loss", "kl_loss", "entropy_loss", "clip_rate", "k3_clamp_rate", "kl_old"), 0.0)
    gradient = []
    for b, g in flat:
        a = advantage_by_loops(case.rewards[b], row.baseline)[g]
        logp, old, ref, length = case.logp[b][g], case.old[b][g], case.ref[b][g], len(case.logp[b][g])
        weight = {"token": 1 / tokens, "sequence": 1 / length / len(flat), "constant": 1 / len(flat) / HORIZON}
        w = weight[row.reduction]
        mean = sum(x - y for x, y in zip(logp, old, strict=True)) / length
        for t in range(length):
            rho = math.exp(min(max(mean if row.sequence_ratio else logp[t] - old[t], -20.0), 20.0))
            loss, slope = surrogate_by_loops(rho, a, row)
            k, k_slope, bites = k3_by_loops(logp[t], ref[t])
            k_old, _, bites_old = k3_by_loops(old[t], logp[t])
            found["policy_loss"] += w * loss
            found["kl_loss"] += w * kl * k
            found["entropy_loss"] += w * entropy_coef * (case.entropy[b][g][t] if full else -logp[t])
            found["clip_rate"] += (rho < 1 - row.low or rho > 1 + row.high) / tokens
            found["k3_clamp_rate"] += (bites_old or (kl > 0 and bites)) / tokens
            found["kl_old"] += k_old / tokens
            gradient.append(w * (slope + kl * k_slope - (0.0 if full else entropy_coef)))
    return found, gradient


# --- the real thing ------------------------------------------------------------------------------------------------


def random_case(seed: int, prompts: int = 6, group: int = 4) -> Case:
    rng = random.Random(seed)
    lengths = [[rng.randint(1, 9) for _ in range(group)] for _ in range(prompts)]
    logp = [[[-rng.expovariate(0.5) for _ in range(n)] for n in row] for row in lengths]
    scales = (0.0, 2e-4, 0.1, 1.0, 15.0)
    old = [[[x + rng.gauss(0, rng.choice(scales)) for x in ys] for ys in row] for row in logp]
    old[1] = [[x + rng.gauss(0, 3e-4) for x in ys] for ys in logp[1]]  # ratios of sequences near 1
    ref = [[[x + rng.gauss(0, rng.choice(scales)) for x in ys] for ys in row] for row in logp]
    entropy = [[[rng.random() for _ in ys] for ys in row] for row in logp]
    rewards = [[rng.choice([0.0, 1.0, rng.random()]) for _ in row] for row in lengths]
    rewards[0] = [0.9] * group  # float32 means of equal rewards differ from them
    return Case(logp, old, ref, entropy, rewards)


def padded(values: list[list[list[float]]]) -> Tensor:
    longest = max(len(ys) for row in values for ys in row)
    return torch.tensor([[ys + [0.0] * (longest - len(ys)) for ys in row] for row in values], dtype=torch.float64)


class Scores:
    """Stands for the scorer: known log-probs of each prompt, with gradients."""

    def __init__(self, case: Case) -> None:
        self.logp, self.entropy = padded(case.logp).requires_grad_(), padded(case.entropy)

    def train_scores(self, micro: Rollout) -> TokenScores:
        rows = [int(i) for i in micro.prompts.samples]
        return TokenScores(self.logp[rows], self.entropy[rows])


def rollout_of(case: Case) -> Rollout:
    mask = padded([[[1.0] * len(ys) for ys in row] for row in case.logp]).bool()
    b = len(mask)
    nothing = tuple(() for _ in range(b))
    prompts = Prompts(tuple(range(b)), nothing, nothing, nothing)
    rewards = torch.tensor(case.rewards, dtype=torch.float64)
    grades = Grades(rewards, rewards > 0.5, rewards > 0.5, nothing, mask & False)
    return Rollout(prompts, Responses(mask.long(), mask, nothing, nothing), grades, 0, padded(case.old), rewards)


def by_the_parent(case: Case, algorithm: Parent, micro_batch: int) -> tuple[dict[str, float], Tensor]:
    rollout, scores, totals = rollout_of(case), Scores(case), {}
    advantage = algorithm.advantage(rollout.reward_BG)[..., None] * rollout.mask_BGT
    size, tokens = algorithm.reduction.size(rollout.mask_BGT), rollout.mask_BGT.sum()
    for start in range(0, len(rollout.prompts), micro_batch):
        part = slice(start, start + micro_batch)
        ref = padded(case.ref)[part] if algorithm.kl_coef else None
        micro = rollout.select(part)
        terms, watched = loss_terms(algorithm, [], scores, micro, advantage[part], ref, size, Record())
        torch.stack(list(terms.values())).sum().backward()
        for key, value in (terms | {key: value / tokens for key, value in watched.items()}).items():
            totals[key] = totals.get(key, 0.0) + value.item()
    return totals, scores.logp.grad[rollout.mask_BGT]


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("kl", "entropy_coef", "full"), [(None, 0.0, True), (0.05, 0.01, True), (0.0, -0.01, False)])
def test_loss_and_gradient_are_the_loops(
    name: str, seed: int, kl: float | None, entropy_coef: float, full: bool
) -> None:
    case, algorithm = random_case(seed), replace(parent(name), entropy_coef=entropy_coef)
    kl = TABLE[name].kl if kl is None else kl
    algorithm = replace(algorithm, kl_coef=kl) if full else replace(algorithm, kl_coef=kl, entropy=sampled_entropy)
    want, want_gradient = by_loops(case, TABLE[name], kl, entropy_coef, full)
    for micro_batch in (1, 4, 6):
        found, gradient = by_the_parent(case, algorithm, micro_batch)
        for key, value in found.items():
            if key in want:
                assert value == pytest.approx(want[key], rel=1e-6, abs=1e-6), key
        torch.testing.assert_close(gradient.tolist(), want_gradient, rtol=1e-6, atol=1e-7)
    assert {"policy_loss", "clip_rate", "k3_clamp_rate"} <= set(found)
    assert ("kl_loss" in found) == bool(kl) and ("entropy_loss" in found) == bool(entropy_coef)


@pytest.mark.parametrize("name", TABLE)
def test_the_table(name: str) -> None:
    row, algorithm = TABLE[name], parent(name)
    assert (algorithm.clip_low, algorithm.clip_high, algorithm.dual_clip) == (row.low, row.high, row.dual)
    assert algorithm.kl_coef == row.kl and algorithm.entropy_coef == 0
    assert (algorithm.selection is not None) == (name == "dapo")
    assert algorithm.overlong is None or algorithm.overlong.factor == 0


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rewards_give_exactly_nothing(name: str, dtype: torch.dtype) -> None:
    for reward in (0.3, 0.7, 0.9):
        for group in (3, 6, 7):
            assert parent(name).advantage(torch.full((2, group), reward, dtype=dtype)).tolist() == [[0.0] * group] * 2


def test_eps_can_be_set() -> None:
    got = parent("gspo", "algorithm.advantage.eps=0.5").advantage(torch.tensor([[1.0, 0.0]]))
    assert got[0, 0].item() == pytest.approx(0.5 / (math.sqrt(0.5) + 0.5), abs=1e-6)
    assert parent("grpo", "algorithm.advantage.eps=0").advantage(torch.full((1, 4), 0.9)).tolist() == [[0.0] * 4]


def test_parts_can_be_exchanged() -> None:
    swapped = parent(
        "grpo", "algorithm/reduction=constant", "algorithm/advantage=mean", "algorithm.reduction.horizon=7"
    )
    other = replace(parent("dr_grpo"), dual_clip=3.0, reduction=swapped.reduction)
    assert replace(swapped, advantage=other.advantage) == other


@pytest.mark.parametrize("seed", range(3))
def test_on_policy_the_pass_itself_gives_the_old_log_probs(seed: int) -> None:
    """Same terms and gradients as with known old log-probs, which are left in the rollout."""
    case = random_case(seed)
    case.old = case.logp
    algorithm, rollout = parent("gspo"), rollout_of(case)
    want, want_gradient = by_the_parent(case, algorithm, 6)
    unknown, scores = replace(rollout, logp_BGT=torch.zeros_like(rollout.logp_BGT)), Scores(case)
    advantage = algorithm.advantage(rollout.reward_BG)[..., None] * rollout.mask_BGT
    size = algorithm.reduction.size(rollout.mask_BGT)
    part = unknown.select(slice(2, 6))
    terms, _ = loss_terms(algorithm, [], scores, part, advantage[2:6], None, size, Record(), on_policy=True)
    assert torch.equal(unknown.logp_BGT[2:], rollout.logp_BGT[2:]) and not unknown.logp_BGT[:2].any()
    rest = rollout.select(slice(0, 2))
    terms_rest, _ = loss_terms(algorithm, [], scores, rest, advantage[:2], None, size, Record())
    total = terms["policy_loss"] + terms_rest["policy_loss"]
    total.backward()
    assert total.item() == pytest.approx(want["policy_loss"], abs=1e-12)
    torch.testing.assert_close(scores.logp.grad[rollout.mask_BGT], want_gradient)


@pytest.mark.parametrize(("longest", "buffer", "factor"), [(10, 4, 1.0), (8, 8, 0.5), (6, 1, 2.0), (10, 4, 0.0)])
def test_overlong_penalty_is_the_loop(longest: int, buffer: int, factor: float) -> None:
    rng = random.Random(0)
    lengths = [[rng.randint(1, 12) for _ in range(5)] for _ in range(6)]
    mask = torch.arange(12) < torch.tensor(lengths)[..., None]
    want = [[-min(max(n - (longest - buffer), 0) / buffer, 1) * factor for n in row] for row in lengths]
    torch.testing.assert_close(OverlongPenalty(longest, buffer, factor)(mask), torch.tensor(want), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("buffer", "factor"), [(0, 1.0), (4, -1.0)])
def test_bad_overlong_values_are_named(buffer: int, factor: float) -> None:
    with pytest.raises(UserError, match=rf"buffer={buffer} .* factor={factor}"):
        OverlongPenalty(16, buffer, factor)
