"""PACE against a literal reference on lists, numbers by hand, and its promises."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median
from typing import Any

import pytest
import torch
from tests.callbacks.hinted_case import (
    ATOL,
    HINT,
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

from mmcredit.callbacks import pace
from mmcredit.callbacks.pace import PACE, pace_weights, robust_z, standing
from mmcredit.credit import Record
from mmcredit.scoring import four_views as views_module
from mmcredit.scoring.edits import FeatureNull, Original
from mmcredit.scoring.hints import log_mean_exp, mean_logp
from mmcredit.types import Rollout, Sample, UserError

NAMED = {
    "negatives": {"log_mean_exp": log_mean_exp, "mean_logp": mean_logp},
    "contrast": {name: getattr(views_module, name) for name in ("hint_contrast", "vision_gap")},
    "confidence": {n: getattr(views_module, n) for n in ("one_vs_rest", "vision_pair", "dispersion", "mix")},
}


def build(**options: Any) -> PACE:
    """PACE with its functions given by name."""
    return PACE(**{key: NAMED[key][value] if key in NAMED else value for key, value in options.items()})


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def spread(values: list[float]) -> float:
    return math.sqrt(mean([(v - mean(values)) ** 2 for v in values]))


def literal_measures(four: list[list[float]], confidence: str) -> list[float]:
    """METHODS section 5, step 4: + hint with image, - hint with image, and both without."""
    mu, sigma = [mean(v) for v in four], [spread(v) for v in four]
    pair = (mu[0] + mu[1]) / 2 - (mu[2] + mu[3]) / 2
    std = (sigma[2] + sigma[3]) / 2 - (sigma[0] + sigma[1]) / 2
    return {
        "one_vs_rest": [mu[0] - (mu[1] + mu[2] + mu[3]) / 3],
        "vision_pair": [pair],
        "dispersion": [std],
        "mix": [pair, std],
    }[confidence]


def literal_z(value: float, pool: list[float]) -> float:
    """Step 5."""
    if len(pool) < 3:
        return 0.0
    centre = median(pool)
    mad = median([abs(v - centre) for v in pool])
    return 0.0 if mad <= 1e-6 else max(-3.0, min(3.0, (value - centre) / (1.4826 * mad + 1e-6)))


def literal_weights(signal: list[float], advantage: list[float], rate: float, low: float, high: float) -> list[float]:
    """Step 7."""
    raw = []
    for c, a in zip(signal, advantage, strict=True):
        sign = (a > 0) - (a < 0)
        raw.append(min(max(math.exp(sign * c), low), high))
    return [(1 - rate) + rate * w / mean(raw) for w in raw]


def literal_four(scores: HintedScores, rollout: Rollout, b: int, g: int, k: int, negatives: str) -> list[list[float]]:
    """Steps 1 and 2: right and (joined) wrong hint with the image, then without."""
    found = []
    for image in ("Original", "FeatureNull"):
        found.append(scores.of(rollout, b, g, right_line(rollout, b), image))
        lines = [scores.of(rollout, b, g, line, image) for line in wrong_lines(rollout, b, g)[:k]]
        parts = [list(part) for part in zip(*lines, strict=True)]
        if negatives == "mean_logp":
            found.append([mean(part) for part in parts])
        else:
            found.append([math.log(sum(math.exp(p) for p in part)) - math.log(len(part)) for part in parts])
    return found


def literal_contrast(four: list[list[float]], contrast: str, alpha: float, beta: float) -> list[float]:
    """Step 3."""
    rows = list(zip(*four, strict=True))
    if contrast == "vision_gap":
        return [p - p0 for p, _, p0, _ in rows]
    return [alpha * (p - n) + beta * (p0 - n0) for p, n, p0, n0 in rows]


def literal_pace(
    rollout: Rollout,
    advantage: Tensor,
    scores: HintedScores,
    *,
    max_negatives: int = 1,
    negatives: str = "log_mean_exp",
    contrast: str = "hint_contrast",
    alpha: float = 1.5,
    beta: float = 0.5,
    confidence: str = "one_vs_rest",
    fixed_rate: float | None = None,
    rate_min: float = 0.15,
    rate_max: float = 0.65,
    weight_low: float = 0.8,
    weight_high: float = 1.2,
    microbatch: int | None = None,
    zero_rows: bool = True,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Advantage and, for responses with both hints, S (mean over measures), z and lambda; number by number."""
    rows, group = responses_of(rollout), rollout.shape[1]
    four, credit = {}, torch.zeros(rollout.shape, dtype=torch.float64)
    shown = {name: torch.zeros(rollout.shape[:2], dtype=torch.float64) for name in ("confidence", "z", "rate")}
    for b, g, length in rows:
        needed = advantage[b, g].any() or (zero_rows and fixed_rate is None)
        if length and needed and right_line(rollout, b) and wrong_lines(rollout, b, g):
            four[b, g] = literal_four(scores, rollout, b, g, max_negatives, negatives)
    measures = {row: literal_measures(views, confidence) for row, views in four.items()}
    for b, g, length in rows:
        given, line = advantage[b, g, :length].tolist(), right_line(rollout, b)
        rate, signal = 0.0, [0.0] * length
        if (b, g) in four:
            size = microbatch or len(rows)
            chunk = [m for (i, j), m in measures.items() if (i * group + j) // size == (b * group + g) // size]
            z = mean([literal_z(value, [m[k] for m in chunk]) for k, value in enumerate(measures[b, g])])
            rate = rate_min + (rate_max - rate_min) / (1 + math.exp(-z)) if fixed_rate is None else fixed_rate
            signal = literal_contrast(four[b, g], contrast, alpha, beta)
            for name, value in (("confidence", mean(measures[b, g])), ("z", z), ("rate", rate)):
                shown[name][b, g] = value
        elif any(given) and line:
            rate, old = rate_min, rollout.logp_BGT[b, g].tolist()
            signal = [logp - old[t] for t, logp in enumerate(scores.of(rollout, b, g, line))]
        weights = literal_weights(signal, given, rate, weight_low, weight_high) if length else []
        credit[b, g, :length] = torch.tensor([a * w for a, w in zip(given, weights, strict=True)], dtype=torch.float64)
    return credit, shown


OPTIONS: list[dict[str, Any]] = [
    {},
    {"max_negatives": 4},
    {"max_negatives": 3, "negatives": "mean_logp"},
    {"alpha": 1.0, "beta": 0.0},
    {"alpha": 2.0, "beta": -1.0},
    {"contrast": "vision_gap", "fixed_rate": 0.5},
    {"contrast": "vision_gap"},
    {"confidence": "vision_pair"},
    {"confidence": "dispersion"},
    {"confidence": "mix", "max_negatives": 2},
    {"fixed_rate": 0.4, "rate_min": 0.1},
    {"rate_min": 0.05, "rate_max": 0.3},
    {"weight_low": 0.95, "weight_high": 3.0},
    {"microbatch": 4},
    {"microbatch": 1},
    {"zero_rows": False, "confidence": "mix"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_against_literal_reference(options: dict[str, Any], seed: int) -> None:
    (rollout, advantage), scores, record = random_case(seed), HintedScores(), Record()
    found = build(**options).on_advantage(rollout, advantage, scores, record)
    credit, shown = literal_pace(rollout, advantage, scores, **options)
    torch.testing.assert_close(found, credit, rtol=0, atol=ATOL)
    for name, values in shown.items():
        torch.testing.assert_close(record.per_response[f"pace/{name}"], values, rtol=0, atol=ATOL)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_mean_over_tokens_and_the_sign_stay_in_every_fallback(options: dict[str, Any]) -> None:
    """Responses with both hints, with the right one alone, and with none."""
    kinds = set()
    for seed in range(12):
        rollout, advantage = random_case(seed, uniform=True)
        found = build(**options).on_advantage(rollout, advantage, HintedScores(scale=3.0), Record())
        for b, g, length in responses_of(rollout):
            a, credit = float(advantage[b, g, 0]), found[b, g, :length]
            if length:
                assert float(credit.mean()) == pytest.approx(a, abs=ATOL)
                assert (credit.sign() == torch.tensor(a).sign()).all()
                kinds.add((right_line(rollout, b) is None, not wrong_lines(rollout, b, g), a == 0))
            assert not found[b, g, length:].any()
    assert len(kinds) == 8, "every fallback occurs"


def two_prompts(**options: Any) -> tuple[Rollout, Tensor]:
    samples = [Sample("0", (PICTURE,), "q", "1"), Sample("1", (PICTURE,), "q", "red")]
    answers = [["1", "2", "3", "2"], ["red", "red", "blue", "green"]]
    correct = [[True, False, False, False], [True, True, False, False]]
    rollout = make_rollout(samples, [[4, 5, 1, 6], [3, 2, 7, 4]], answers, correct, **options)
    advantage = torch.tensor([[1.5, -0.5, -0.5, -0.5], [0.8, 0.8, -0.9, -0.9]], dtype=torch.float64)
    return rollout, advantage[..., None] * rollout.mask_BGT


def test_equal_rewards_give_exactly_zero_and_cost_nothing_where_the_batch_does_not_need_them() -> None:
    rollout, advantage = two_prompts()
    for options, asked in (({}, True), ({"zero_rows": False}, False), ({"fixed_rate": 0.5}, False)):
        scores = HintedScores()
        credit = build(**options).on_advantage(rollout, torch.zeros_like(advantage), scores, Record())
        assert not credit.any() and bool(scores.asked) is asked


def test_one_token_keeps_its_advantage() -> None:
    rollout, advantage = two_prompts()
    credit = build().on_advantage(rollout, advantage, HintedScores(scale=3.0), Record())
    torch.testing.assert_close(credit[0, 2], advantage[0, 2], rtol=0, atol=1e-12)


def test_without_an_image_the_null_views_are_the_full_ones() -> None:
    rollout, advantage = two_prompts()
    blind = replace(rollout.prompts.samples[0], images=())
    rollout = replace(rollout, prompts=replace(rollout.prompts, samples=(blind, rollout.prompts.samples[1])))
    scores, record = HintedScores(), Record()
    credit = build(confidence="vision_pair").on_advantage(rollout, advantage, scores, record)
    assert not any(b == 0 and image == "FeatureNull" for b, _, _, image in scores.asked)
    assert any(b == 1 and image == "FeatureNull" for b, _, _, image in scores.asked)
    torch.testing.assert_close(record.per_response["pace/delta"][0], record.per_response["pace/delta_null"][0])
    assert not record.per_response["pace/confidence"][0].any() and not record.per_response["pace/vision_gap"][0].any()
    torch.testing.assert_close(
        credit, literal_pace(rollout, advantage, scores, confidence="vision_pair")[0], rtol=0, atol=ATOL
    )


def test_views_asked_of_the_scorer() -> None:
    rollout, advantage = two_prompts()
    scores, method = HintedScores(), build(max_negatives=2)
    method.on_advantage(rollout, advantage, scores, Record())
    assert [view.image for view in scores.views] == [Original()] * 3 + [FeatureNull()] * 3
    assert len(method.extra_views(0)) == 6 and method.refresh_every == 20
    assert len(scores.asked) == len(set(scores.asked)), "no response is scored twice under the same conditions"
    lines = {line for b, g, line, _ in scores.asked if (b, g) == (0, 1)}
    assert lines == {HINT + "1", HINT + "3"}, "its own answer, 2, is no wrong hint"


def test_weights_by_hand() -> None:
    """exp(+-.15) = 1.161834, .860708, mean 1.011271, so 1.148885 and .851115; lambda .5 gives 1.074443, .925557."""
    signal = torch.tensor([[[0.15, -0.15, 9.0]]], dtype=torch.float64)
    mask, rate = torch.tensor([[[True, True, False]]]), torch.tensor([[0.5]])
    expected = torch.tensor([1.074443, 0.925557], dtype=torch.float64)
    for sign, weights in ((1.0, expected), (-2.0, expected.flip(0))):
        found = pace_weights(signal, sign * mask.double(), rate, mask, 0.8, 1.2)[0, 0, :2]
        torch.testing.assert_close(found, weights, rtol=0, atol=ATOL)


def test_robust_z_by_hand() -> None:
    """Median 3, deviations 2 1 0 1 97: MAD 1."""
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 100.0], dtype=torch.float64)
    expected = torch.tensor([-1.348980, -0.674490, 0.0, 0.674490, 3.0], dtype=torch.float64)
    torch.testing.assert_close(robust_z(values, values), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("pool", [[], [5.0], [5.0, 9.0], [1.0, 1.0, 1.0, 9.0]], ids=str)
def test_no_standing_without_three_values_and_a_spread(pool: list[float]) -> None:
    assert not robust_z(torch.tensor([-3.0, 1.0, 7.0]), torch.tensor(pool)).any()


def test_two_responses_with_both_hints_get_the_middle_rate() -> None:
    samples = [Sample("0", (PICTURE,), "q", "1")]
    rollout = make_rollout(samples, [[3, 3]], [["2", "3"]], [[False, False]])
    record, advantage = Record(), torch.tensor([[[1.0], [-1.0]]], dtype=torch.float64).expand(1, 2, 3)
    build().on_advantage(rollout, advantage, HintedScores(), record)
    torch.testing.assert_close(record.per_response["pace/rate"], torch.full((1, 2), 0.4, dtype=torch.float64))


@pytest.mark.parametrize("options", [{}, {"max_negatives": 4, "confidence": "mix"}], ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_permuting_a_group_permutes_the_result(options: dict[str, Any], seed: int) -> None:
    (rollout, advantage), order = random_case(seed, group=5), [3, 1, 4, 0, 2]
    first = build(**options).on_advantage(rollout, advantage, HintedScores(), Record())
    second = build(**options).on_advantage(permuted(rollout, order), advantage[:, order], HintedScores(), Record())
    torch.testing.assert_close(second, first[:, order], rtol=0, atol=ATOL)


def test_confidence_is_compared_over_all_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    rollout, advantage = random_case(3, group=4)
    rollout, advantage = (x.select(slice(0, 4)) if isinstance(x, Rollout) else x[:4] for x in (rollout, advantage))
    ranks, scores = [slice(0, 1), slice(1, 4)], HintedScores()
    whole = build().on_advantage(rollout, advantage, scores, Record())
    pools: list[Tensor] = []
    monkeypatch.setattr(pace, "across_ranks", lambda values: pools.append(values) or values)
    alone = [build().on_advantage(rollout.select(r), advantage[r], scores, Record()) for r in ranks]
    together = torch.cat(pools)
    monkeypatch.setattr(pace, "across_ranks", lambda values: together)
    joined = [build().on_advantage(rollout.select(r), advantage[r], scores, Record()) for r in ranks]
    torch.testing.assert_close(torch.cat(joined), whole, rtol=0, atol=1e-12)
    assert (torch.cat(alone) - whole).abs().max() > 1e-4


def test_a_microbatch_is_compared_within_itself() -> None:
    s, counted = torch.tensor([[1.0, 2.0, 4.0, 9.0], [0.0, 5.0, 5.5, 7.0]]), torch.ones(2, 4, dtype=torch.bool)
    counted[1, 0] = False
    expected = [robust_z(s[0], s[0]), torch.cat([torch.zeros(1), robust_z(s[1, 1:], s[1, 1:])])]
    torch.testing.assert_close(standing(s, counted, 4), torch.stack(expected))
    assert not standing(s, counted, 2).any()


@pytest.mark.parametrize(
    "options",
    [
        {"max_negatives": 2},
        {"max_negatives": 2, "negatives": "mean_logp"},
        {"contrast": "vision_gap"},
        {"alpha": 1.0},
        {"beta": -0.5},
        {"confidence": "vision_pair"},
        {"confidence": "dispersion"},
        {"confidence": "mix"},
        {"fixed_rate": 0.5},
        {"rate_min": 0.3},
        {"rate_max": 0.4},
        {"weight_low": 0.95},
        {"weight_high": 1.05},
        {"microbatch": 4},
        {"zero_rows": False},
        {"template": "{answer}?"},
    ],
    ids=str,
)
def test_every_parameter_has_an_effect(options: dict[str, Any]) -> None:
    rollout, advantage = two_prompts()
    advantage[1, 1] = 0  # a response of zero advantage, counted by default
    before = options if "negatives" not in options else {"max_negatives": 2}
    before = before if before != options else {}
    default, changed = (
        build(**o).on_advantage(rollout, advantage, HintedScores(), Record()) for o in (before, options)
    )
    assert (default - changed).abs().max() > 1e-4


def test_recorded_metrics() -> None:
    """Prompt 0: gold and negatives for all; prompt 1: all right, so no negatives; prompt 2: no gold."""
    samples = [Sample(str(i), (PICTURE,), "q", gold) for i, gold in enumerate(("1", "red", ""))]
    answers = [["1", "2", "3"], ["red"] * 3, ["4", "5", "5"]]
    correct = [[True, False, False], [True] * 3, [False] * 3]
    rollout, record = make_rollout(samples, [[4] * 3] * 3, answers, correct), Record()
    advantage = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)[None, :, None].expand(3, 3, 4)
    build(max_negatives=4).on_advantage(rollout, advantage, HintedScores(scale=0.01), record)
    keys = ("vision_gap", "delta", "delta_null", "confidence", "z", "eta", "rate", "negatives", "clip_share")
    keys += ("rlsd_rate", "uniform_rate", *(f"{n}_p{p}" for n in ("eta", "rate") for p in (10, 50, 90)))
    assert set(record.scalars) == {f"pace/{key}" for key in keys}
    assert record.scalars["pace/rlsd_rate"] == record.scalars["pace/uniform_rate"] == pytest.approx(1 / 3)
    assert record.per_response["pace/negatives"].tolist() == [[2, 1, 1], [0, 0, 0], [1, 1, 1]]
    assert record.scalars["pace/rate_p50"] == pytest.approx(0.4) and len(record.histograms["pace/rate"]) == 3
    assert record.scalars["pace/eta_p10"] < 0.5 < record.scalars["pace/eta_p90"]
    assert 0 <= record.scalars["pace/clip_share"] < 1


def test_nothing_is_recorded_of_what_does_not_occur() -> None:
    rollout = make_rollout([Sample("0", (), "q", "1")], [[3, 2]], [["1", "1"]], [[True, True]])
    record = Record()
    build().on_advantage(rollout, torch.zeros(rollout.shape), HintedScores(), record)
    assert set(record.scalars) == {f"pace/{k}" for k in ("negatives", "clip_share", "rlsd_rate", "uniform_rate")}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_negatives": 0}, "max_negatives=0 must be 1, 2, 3 or 4"),
        ({"max_negatives": 5}, "max_negatives=5 must be 1, 2, 3 or 4"),
        ({"microbatch": 0}, "microbatch=0 at least 1"),
        ({"rate_min": 0.7}, "rate_min=0.7 and rate_max=0.65 need 0 <= rate_min"),
        ({"rate_max": 1.1}, "rate_max=1.1 need"),
        ({"fixed_rate": -0.1}, "fixed_rate=-0.1 0..1 or null"),
        ({"weight_low": 0.0}, "weight_low=0.0"),
        ({"template": "Answer"}, "must contain {answer}"),
        ({"refresh_every": 0}, "callbacks.pace.refresh_every=0"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words.replace("{", r"\{")):
        PACE(**options)
