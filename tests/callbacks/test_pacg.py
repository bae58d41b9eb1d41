"""PACG against a literal reference on lists, numbers by hand, and its invariants."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from ragged import END, SPECIAL, GivenRouter, GivenScores, claim, random_rollout, random_routing, rollout_of
from torch import Tensor

from mmcredit.callbacks.pacg import PACG, pacg_gate, persistence
from mmcredit.callbacks.vppo import VPPO
from mmcredit.credit import Record
from mmcredit.scoring.edits import CoarseInk, Foreground, PixelMask
from mmcredit.scoring.views import View
from mmcredit.services.claims import Routing, place
from mmcredit.types import Rollout, UserError

ATOL = 1e-6  # float64 against Python floats
INF = float("inf")


def random_case(seed: int) -> tuple[Rollout, Tensor, Tensor, dict[str, Routing]]:
    """A ragged batch and what the router says of each text."""
    rollout, masked, advantage = random_rollout(seed)
    rng = random.Random(seed)
    routings = {t: random_routing(rng, t) for t in sorted({t for texts in rollout.responses.texts for t in texts})}
    return rollout, masked, advantage, routings


def literal_claims(
    rollout: Rollout, i: int, j: int, answer: Routing, routing: bool
) -> tuple[list[list[int]], list[int]]:
    """Tokens of each claim, and the reference; steps 1, 2, 4."""
    spans, ids = rollout.responses.spans[i][j], rollout.responses.ids_BGT[i, j].tolist()
    visual, claims = set(), []
    for span, (start, end) in answer.spans:
        inside = [k for k, (a, b) in enumerate(spans) if any(start <= c < end for c in range(a, b))]
        if span.span_group in ("direct_vef", "derived_vef"):
            visual |= set(inside)
        if span.eligible and inside:
            claims.append(inside)
    if not routing:
        claims = [[k] for k in range(len(spans))]
    return claims, [k for k in range(len(spans)) if k not in visual and ids[k] not in (END, SPECIAL)]


def literal_gates(
    eta: list[float],
    claims: list[list[int]],
    reference: list[int],
    margin: float = 0.05,
    alpha: float = 10.0,
    floor: float = 0.30,
    min_residual: int = 8,
    residual: bool = True,
) -> list[float]:
    """Steps 5 to 8."""
    gates = [1.0] * len(eta)
    if not all(math.isfinite(e) for e in eta) or (residual and len(reference) < min_residual):
        return gates
    drift = sum(eta[k] for k in reference) / len(reference) if residual else 0.0
    for inside in claims:
        delta = sum(eta[k] for k in inside) / len(inside) - drift
        gate = max(floor, math.exp(-alpha * max(0.0, delta + margin)))
        for k in inside:
            gates[k] = min(gates[k], gate)
    return gates


def literal_pacg(
    rollout: Rollout,
    masked: Tensor,
    advantage: Tensor,
    routings: dict[str, Routing],
    routing: bool = True,
    positive_only: bool = True,
    **options: Any,
) -> list[list[list[float]]]:
    """METHODS section 3, number by number."""
    result = advantage.tolist()
    for i, sample in enumerate(rollout.prompts.samples):
        for j, text in enumerate(rollout.responses.texts[i]):
            if routings[text].failure or not sample.images:
                continue
            claims, reference = literal_claims(rollout, i, j, routings[text], routing)
            tokens = range(len(rollout.responses.spans[i][j]))
            eta = [float(masked[i, j, k]) - float(rollout.logp_BGT[i, j, k]) for k in tokens]
            for k, gate in enumerate(literal_gates(eta, claims, reference, **options)):
                if result[i][j][k] > 0 or not positive_only:
                    result[i][j][k] *= gate
    return result


def gated(case: tuple[Rollout, Tensor, Tensor, dict[str, Routing]], **options: Any) -> Tensor:
    rollout, masked, advantage, routings = case
    return PACG(GivenRouter(routings), **options).on_advantage(rollout, advantage, GivenScores(masked), Record())


OPTIONS: list[dict[str, Any]] = [
    {},
    {"min_residual": 1},
    {"residual": False},
    {"routing": False},
    {"routing": False, "min_residual": 1},
    {"routing": False, "residual": False},
    {"positive_only": False},
    {"positive_only": False, "routing": False, "residual": False},
    {"margin": 0.0, "min_residual": 3},
    {"margin": -0.1, "min_residual": 3},
    {"alpha": 2.0, "min_residual": 3},
    {"floor": 0.0, "min_residual": 3},
    {"per_response": True, "min_residual": 3},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(20))
def test_equals_the_literal_reference(options: dict[str, Any], seed: int) -> None:
    case = random_case(seed)
    if seed % 4 == 3:
        case[1][0, 0, 0] = -INF  # a score that failed
    expected = literal_pacg(*case, **{k: v for k, v in options.items() if k != "per_response"})
    found = gated(case, **options)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=found.dtype), rtol=0, atol=ATOL)


def test_the_reference_is_exercised() -> None:
    """Enough random responses are gated, and every ablation changes some."""
    cases = [random_case(seed) for seed in range(20)]
    changed = sum(int((gated(case) != case[2]).sum()) for case in cases)
    assert changed > 30
    for options in OPTIONS[1:-1]:
        assert any(not torch.equal(gated(case, **options), gated(case)) for case in cases), options


def test_gate_by_hand() -> None:
    """exp(-10 (.0704 + .05)) = .30: from there on the floor holds."""
    delta = torch.tensor([-1.0, -0.05, 0.0, 0.02, 0.0704, 0.5], dtype=torch.float64)
    by_hand = [1.0, 1.0, 0.6065307, 0.4965853, 0.3, 0.3]
    torch.testing.assert_close(pacg_gate(delta), delta.new_tensor(by_hand), rtol=0, atol=1e-4)
    assert float(pacg_gate(delta.new_tensor([0.0703]))) > 0.3


def test_persistence_by_hand() -> None:
    """Claim tokens fall by .3 and .1, the others by .1 on average."""
    eta = torch.tensor([-0.3, -0.1, -0.2, 0.0], dtype=torch.float64)
    claims = torch.tensor([[True, True, False, False]])
    reference = torch.tensor([False, False, True, True])
    torch.testing.assert_close(persistence(eta, claims, reference), eta.new_tensor([-0.1]))
    torch.testing.assert_close(persistence(eta, claims, None), eta.new_tensor([-0.2]))


@pytest.mark.parametrize("floor", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(10))
def test_sign_kept_never_larger_and_bounded(seed: int, floor: float) -> None:
    case = random_case(seed)
    before, after = case[2], gated(case, floor=floor, min_residual=1)
    assert torch.equal(after.sign(), before.sign()) or floor == 0.0
    assert (after.abs() <= before.abs()).all()
    assert ((after - before).abs() <= (1 - floor) * before.clamp(min=0) + 1e-12).all()
    assert torch.equal(after[before <= 0], before[before <= 0])


@pytest.mark.parametrize("routing", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_a_shift_of_a_whole_response_changes_nothing(seed: int, routing: bool) -> None:
    """eta + c_i with another c_i for each response."""
    rollout, masked, advantage, routings = random_case(seed)
    shift = torch.randn(*rollout.shape[:2], 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    first = gated((rollout, masked, advantage, routings), min_residual=1, routing=routing)
    second = gated((rollout, masked + shift, advantage, routings), min_residual=1, routing=routing)
    torch.testing.assert_close(second, first, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "routing",
    [Routing(), Routing(failure="timeout"), Routing(dropped=3), "derived_vef", "non_vef_control"],
    ids=["empty", "failed", "dropped", "derived", "control"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_routed_claim_is_the_parent_bit_for_bit(routing: Any, dtype: torch.dtype) -> None:
    rollout, masked, advantage, routings = random_case(8)
    for text in routings:
        span = None if not isinstance(routing, str) else (claim(text[:4], routing), (0, 4))
        routings[text] = routing if span is None else Routing((span,) if len(text) > 3 else ())
    advantage, scorer = advantage.to(dtype), GivenScores(masked)
    found = PACG(GivenRouter(routings)).on_advantage(rollout, advantage, scorer, Record())
    assert torch.equal(found, advantage) and found.dtype == dtype
    assert not scorer.where[0].any(), "nothing is scored"


def test_an_empty_router_is_not_routing_off() -> None:
    rollout, masked, advantage, _ = random_case(9)
    empty: dict[str, Routing] = {text: Routing() for texts in rollout.responses.texts for text in texts}
    case = (rollout, masked, advantage, empty)
    assert torch.equal(gated(case), advantage)
    assert not torch.equal(gated(case, routing=False), advantage)
    failed = {text: Routing(failure="timeout") for text in empty}
    assert torch.equal(gated((rollout, masked, advantage, failed), routing=False), advantage)


def ten_words(count: int, routing: Routing, ends: bool = True) -> tuple[Rollout, Tensor, Tensor, dict[str, Routing]]:
    """One response of this many words and an end token; what the picture changes is 0, so that claims persist."""
    ids = [[[*range(10, 10 + count), *([END] if ends else [])]]]
    rollout = rollout_of(ids, torch.zeros(1, 1, count + 1, dtype=torch.float64), [True])
    advantage = torch.ones(1, 1, count + 1, dtype=torch.float64) * rollout.mask_BGT
    return rollout, torch.zeros(1, 1, count + 1), advantage, {rollout.responses.texts[0][0]: routing}


def spans_of(*pieces: tuple[str, str]) -> Routing:
    text = "".join(f" w{i}" for i in range(10, 30))
    return place([claim(words, kind) for words, kind in pieces], text)


@pytest.mark.parametrize(("count", "gated_tokens"), [(10, 2), (9, 0)])
def test_eight_reference_tokens_are_needed_and_the_end_token_is_none(count: int, gated_tokens: int) -> None:
    found = gated(ten_words(count, spans_of(("w11 w12", "direct_vef"))))
    assert int((found == math.exp(-0.5)).sum()) == gated_tokens
    assert int((found == 1).sum()) == count + 1 - gated_tokens


def test_derived_claims_leave_the_reference_but_are_not_gated() -> None:
    routing = spans_of(("w11 w12", "direct_vef"), ("w13", "derived_vef"))
    assert torch.equal(gated(case := ten_words(10, routing)), case[2]), "seven reference tokens"
    found = gated(ten_words(11, routing))[0, 0]
    assert [i for i, gate in enumerate(found.tolist()) if gate < 1] == [1, 2]


def test_repeated_text_takes_its_occurrences_in_order() -> None:
    ids = [[[10, 11, 10, 11, *range(20, 30)]]]
    rollout = rollout_of(ids, torch.zeros(1, 1, 14, dtype=torch.float64), [True])
    text, advantage = rollout.responses.texts[0][0], torch.ones(1, 1, 14, dtype=torch.float64)
    for times, expected in ((1, [0, 1]), (2, [0, 1, 2, 3]), (3, [0, 1, 2, 3])):
        routing, record = place([claim("w10 w11")] * times, text), Record()
        method = PACG(GivenRouter({text: routing}))
        found = method.on_advantage(rollout, advantage, GivenScores(torch.zeros(1, 1, 14)), record)[0, 0]
        assert [i for i, gate in enumerate(found.tolist()) if gate < 1] == expected
        assert record.scalars["pacg/dropped_spans"] == max(times - 2, 0)


def test_overlapping_claims_take_the_smaller_gate() -> None:
    case = ten_words(14, spans_of(("w11 w12", "direct_vef"), ("w12 w13", "direct_vef")))
    case[1][0, 0, 1:4] = torch.tensor([-0.2, 0.06, 0.06])  # the claims fall by .07 and rise by .06
    found = gated(case)[0, 0, 1:4]
    torch.testing.assert_close(found, found.new_tensor([1.0, math.exp(-1.1), math.exp(-1.1)]), atol=1e-6, rtol=0)


def test_the_router_is_asked_early_about_promising_responses_only() -> None:
    """Group 0: rewards 1, 0; group 1: equal rewards; group 2: no picture. The rest is asked when it gets credit."""
    ids = [[[10 * i + j] * 9 + [END] for j in (1, 2)] for i in (1, 2, 3)]
    rollout = rollout_of(ids, torch.zeros(3, 2, 10), [True, True, False])
    rollout = replace(rollout, reward_BG=torch.tensor([[1.0, 0.0], [0.9, 0.9], [1.0, 0.0]]))
    texts, router = rollout.responses.texts, GivenRouter()
    method = PACG(router)
    method.on_rollout(rollout, Record())
    assert router.asked == [("0", texts[0][0])]
    advantage = torch.ones(3, 2, 10)
    advantage[1, 1] = -1.0
    method.on_advantage(rollout.select(slice(0, 3)), advantage, GivenScores(torch.zeros(3, 2, 10)), Record())
    assert router.asked == [("0", texts[0][0]), ("0", texts[0][1]), ("1", texts[1][0])]
    method.on_advantage(rollout, advantage, GivenScores(torch.zeros(3, 2, 10)), Record())
    assert len(router.asked) == 6, "answers of a step are forgotten"


def test_answers_find_their_prompts_after_a_selection() -> None:
    """Several draws of a step, some prompts dropped, others reordered."""
    first, masked, advantage, routings = random_case(12)
    router = GivenRouter(routings)
    method = PACG(router, min_residual=1)
    expected = gated((first, masked, advantage, routings), min_residual=1)
    rewarded = replace(first, reward_BG=torch.rand(first.shape[:2], generator=torch.Generator().manual_seed(1)))
    for draw in (rewarded, rewarded.select(slice(1, None))):
        method.on_rollout(draw, Record())
    part = slice(1, 3)
    found = method.on_advantage(first.select(part), advantage[part], GivenScores(masked[part]), Record())
    assert len(expected) > 2 and torch.equal(found, expected[part])


def test_only_responses_to_gate_are_scored_and_the_pass_is_shared_with_vppo() -> None:
    rollout, masked, advantage, routings = random_case(13)
    scorer = GivenScores(masked)
    PACG(GivenRouter(routings)).on_advantage(rollout, advantage, scorer, Record())
    VPPO().on_advantage(rollout, advantage, scorer, Record())
    assert scorer.views[0] == scorer.views[1] == View(image=PixelMask(0.5, (7, 3)))
    where = scorer.where[0]
    assert (where <= (advantage > 0).any(-1)).all() and 0 < where.sum() < scorer.where[1].sum()
    assert PACG(GivenRouter()).extra_views(7) == VPPO().extra_views(7)


def test_scoring_ahead_asks_for_all_before_the_router_answers_and_gates_alike() -> None:
    rollout, masked, advantage, routings = random_case(13)
    scorer, log = GivenScores(masked), list[str]()

    class Late(GivenRouter):
        def submit(self, requests):
            log.append(f"{len(scorer.where)} passes")
            return super().submit(requests)

    found = PACG(Late(routings), score_ahead=True).on_advantage(rollout, advantage, scorer, Record())
    assert torch.equal(found, gated((rollout, masked, advantage, routings)))
    assert log == ["1 passes"] and torch.equal(scorer.where[0], (advantage > 0).any(-1))


@pytest.mark.parametrize("corruption", [CoarseInk(), Foreground()])
def test_other_corruptions(corruption: Any) -> None:
    rollout, masked, advantage, routings = random_case(13)
    scorer = GivenScores(masked)
    PACG(GivenRouter(routings), corruption=corruption).on_advantage(rollout, advantage, scorer, Record())
    assert scorer.views == [View(image=corruption)]


def test_recorded_metrics() -> None:
    """Six responses: two gated, one with negative credit, and a failure, no claim, a short reference."""
    words = list(range(10, 20))
    ids = [[[*words, 30 + j] for j in range(5)] + [[10, 11, 40]]]
    rollout = rollout_of(ids, torch.zeros(1, 6, 11, dtype=torch.float64), [True])
    texts = rollout.responses.texts[0]
    found = place([claim("w11 w12"), claim("w99")], texts[0])
    answers = [found, found, found, Routing(failure="timeout"), Routing(), place([claim("w11")], texts[5])]
    advantage = torch.ones(1, 6, 11, dtype=torch.float64) * rollout.mask_BGT
    advantage[0, 2] *= -1
    advantage[0, 0, 1] = 0.0  # VPPO dropped a claim's token
    masked = torch.zeros(1, 6, 11)
    masked[0, 0, 1:3] = -1.0  # retracts
    masked[0, 1, 1:3] = 1.0  # persists: at the floor
    record = Record()
    method = PACG(GivenRouter(dict(zip(texts, answers, strict=True))))
    method.on_advantage(rollout, advantage, GivenScores(masked), record)
    assert record.scalars == pytest.approx(
        {
            "pacg/router_failure_rate": 0.2,
            "pacg/failure_timeout_rate": 0.2,
            "pacg/no_claim_rate": 0.2,
            "pacg/short_residual_rate": 0.2,
            "pacg/scoring_failure_rate": 0.0,
            "pacg/spans": 0.75,
            "pacg/dropped_spans": 0.5,
            "pacg/delta": 0.0,
            "pacg/delta_p90": 0.8,
            "pacg/gate": 0.65,
            "pacg/retention": (1 + 0.3 + 0.3 + 1) / 4,
            "pacg/downweighted_rate": 0.5,
            "pacg/floor_rate": 0.5,
            "pacg/kept_rate": 0.8,
        },
        abs=ATOL,
    )
    assert "router" in record.seconds


def test_a_failed_score_is_counted() -> None:
    rollout, masked, advantage, routings = case = ten_words(10, spans_of(("w11 w12", "direct_vef")))
    masked[0, 0, 4], record = float("nan"), Record()
    found = PACG(GivenRouter(routings)).on_advantage(rollout, advantage, GivenScores(masked), record)
    assert torch.equal(found, case[2]) and record.scalars["pacg/scoring_failure_rate"] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": -1.0}, "alpha=-1.0 must be at least 0"),
        ({"floor": 1.5}, "floor=1.5 in 0..1"),
        ({"min_residual": 0}, "min_residual=0 at least 1"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        PACG(GivenRouter(), **options)
