"""CED against a literal reference on lists, a table by hand, and its promises."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

from mmcredit.callbacks.ced import CED, ced_gate, raw_margin, standardized_margin
from mmcredit.credit import Record
from mmcredit.functional import stable_seed
from mmcredit.scoring.answer_scores import binary, composite, signed
from mmcredit.scoring.quality import Quality, measurable
from mmcredit.scoring.replace import Evidence, FeatureReplace, Reference, RingMean, Zero
from mmcredit.scoring.views import Scored, View
from mmcredit.types import Box, Grades, Prompts, Responses, Rollout, Sample, UserError

ATOL = 1e-6  # float64 against Python floats
FAMILIES = ("counting", "attribute", "spatial", "presence", "")
PICTURE = Image.new("RGB", (128, 128))
GRID = torch.tensor([[1, 8, 8]])
REWARDS = {"binary": binary, "signed": signed, "composite": composite}
MARGINS = {"standardized": standardized_margin, "raw": raw_margin}


class GivenScores:
    """A scorer that returns given log-probs, 0 where they are not asked for."""

    def __init__(self, logps: Sequence[Tensor]) -> None:
        self.given, self.views, self.where_BG = logps, (), None

    def logps(self, rollout: Rollout, views: Sequence[View], where_BG: Tensor | None = None) -> list[Tensor]:
        assert where_BG is not None
        self.views, self.where_BG = tuple(views), where_BG
        answer = rollout.grades.answer_BGT
        scopes = [answer if v.scored is Scored.ANSWER else rollout.mask_BGT for v in views]
        return [
            logp * scope * where_BG[..., None] for logp, scope in zip(self.given[: len(views)], scopes, strict=True)
        ]


class HashedScores(GivenScores):
    """Log-probs that depend on the view."""

    def __init__(self) -> None:
        super().__init__(())

    def logps(self, rollout: Rollout, views: Sequence[View], where_BG: Tensor | None = None) -> list[Tensor]:
        generators = [torch.Generator().manual_seed(stable_seed(view)) for view in views]
        self.given = [-3 * torch.rand(rollout.shape, generator=g, dtype=torch.float64) for g in generators]
        return super().logps(rollout, views, where_BG)


def make_rollout(
    samples: Sequence[Sample], masks: Tensor, answers: Tensor, logp: Tensor, correct: Tensor, reward: Tensor
) -> Rollout:
    """A rollout in which CED sees what it needs; a response without answer tokens has no answer."""
    b, g, _ = masks.shape
    texts = tuple(tuple("" for _ in range(g)) for _ in range(b))
    found = tuple(tuple("x" if row.any() else None for row in group) for group in answers)
    grids = tuple(GRID if sample.images else None for sample in samples)
    prompts = Prompts(tuple(samples), (torch.zeros(1, dtype=torch.long),) * b, (None,) * b, grids)
    responses = Responses(masks.long(), masks, texts, ())
    grades = Grades(reward, correct, correct, found, answers)
    return Rollout(prompts, responses, grades, 0, logp, reward)


def sample_of(name: str, family: str, seen: bool = True) -> Sample:
    return Sample(name, (PICTURE,) if seen else (), "q", "a", family, bbox=Box(8, 8, 32, 32) if seen else None)


def random_case(seed: int, k: int) -> tuple[Rollout, list[Tensor]]:
    """A ragged batch: every family, text-only prompts, empty responses, responses without an answer span."""
    rng = random.Random(seed)
    b, g, t = rng.randint(2, 6), rng.randint(2, 5), rng.randint(3, 9)
    torch_rng = torch.Generator().manual_seed(seed)
    masks = torch.zeros(b, g, t, dtype=torch.bool)
    answers = torch.zeros(b, g, t, dtype=torch.bool)
    for i in range(b):
        for j in range(g):
            length = rng.randint(0, t)
            masks[i, j, :length] = True
            if length and rng.random() < 0.8:
                start = rng.randrange(length)
                answers[i, j, start : rng.randint(start + 1, length)] = True
    logp, *replaced = -2 * torch.rand(k + 2, b, g, t, generator=torch_rng, dtype=torch.float64)
    correct = (torch.rand(b, g, generator=torch_rng) < 0.5) & answers.any(-1)
    reward = torch.rand(b, g, generator=torch_rng, dtype=torch.float64) - 0.5
    samples = [sample_of(str(i), rng.choice(FAMILIES), seen=rng.random() < 0.8) for i in range(b)]
    return make_rollout(samples, masks, answers, logp * masks, correct, reward), replaced


def literal_composite(rollout: Rollout, b: int, g: int) -> float:
    """.30 exp(mean answer log-prob) + .70 exp(mean response log-prob / .2) of a right answer."""
    if not rollout.grades.correct_BG[b, g]:
        return 0.0
    score = 0.0
    for weight, mask, tau in ((0.3, rollout.grades.answer_BGT, 1.0), (0.7, rollout.mask_BGT, 0.2)):
        found = rollout.logp_BGT[b, g][mask[b, g]].tolist()
        score += weight * math.exp(sum(found) / len(found) / tau)
    return score


def literal_ced(
    rollout: Rollout,
    replaced: Sequence[Tensor],
    *,
    scope: str = "answer",
    margin: str = "standardized",
    answer_reward: str = "binary",
    sigma_floor: float = 0.0,
    routed_families: Sequence[str] = ("counting", "attribute", "spatial"),
    gated: bool = True,
    k: int = 3,
    tau: float = 0.2,
    eps: float = 0.1,
    reward_clip: tuple[float, float] | None = None,
    format_penalty: float | None = None,
) -> tuple[list[list[float]], list[list[float]]]:
    """Rewards and margins by METHODS section 4, steps 1, 6, 7, 8, 9, number by number."""
    rewards, margins = [], []
    for b, sample in enumerate(rollout.prompts.samples):
        rewards.append([])
        margins.append([])
        for g in range(rollout.shape[1]):
            correct = bool(rollout.grades.correct_BG[b, g])
            ans = {
                "binary": 1.0 if correct else 0.0,
                "signed": 1.0 if correct else -0.25,
                "composite": literal_composite(rollout, b, g),
            }[answer_reward]
            mask = (rollout.grades.answer_BGT if scope == "answer" else rollout.mask_BGT)[b, g].tolist()
            tokens = [t for t, inside in enumerate(mask) if inside]
            m, reward = 0.0, ans
            if tokens and sample.images:
                drops = [
                    sum(float(rollout.logp_BGT[b, g, t] - logp[b, g, t]) for t in tokens) / len(tokens)
                    for logp in replaced[: k + 1]
                ]
                s_ev, s_non = drops[0], drops[1:]
                mean = sum(s_non) / k
                std = max(math.sqrt(sum((s - mean) ** 2 for s in s_non) / k), sigma_floor)
                m = math.tanh((s_ev - mean) / (std + 1e-6)) if margin == "standardized" else s_ev - mean
                if sample.family in routed_families:
                    gate = 0.5 * (1 + math.tanh(m / tau)) if gated and correct else 1.0
                    reward = ans * gate + eps * m
            if format_penalty is not None and rollout.grades.answers[b][g] is None:
                reward = format_penalty
            if reward_clip is not None:
                reward = min(max(reward, reward_clip[0]), reward_clip[1])
            rewards[-1].append(reward)
            margins[-1].append(m)
    return rewards, margins


def build(**options: Any) -> CED:
    """CED with its functions given by name."""
    named = {"margin": MARGINS, "answer_reward": REWARDS}
    return CED(**{key: named[key][value] if key in named else value for key, value in options.items()})


OPTIONS: list[dict[str, Any]] = [
    {},
    {"scope": "response"},
    {"margin": "raw"},
    {"sigma_floor": 0.3},
    {"answer_reward": "signed"},
    {"answer_reward": "composite"},
    {"answer_reward": "signed", "margin": "raw", "scope": "response", "k": 5, "tau": 0.7, "eps": 0.3},
    {"routed_families": ("presence", "")},
    {"gated": False},
    {"k": 1, "margin": "raw"},
    {"k": 2, "sigma_floor": 0.1},
    {"answer_reward": "signed", "reward_clip": (-0.2, 0.9), "format_penalty": -0.75},
    {"format_penalty": -0.75, "reward_clip": (-1.25, 1.0)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(map(str, o)) or "default")
@pytest.mark.parametrize("seed", range(6))
def test_reward_and_margin_against_literal_reference(options: dict[str, Any], seed: int) -> None:
    rollout, replaced = random_case(seed, options.get("k", 3))
    record = Record()
    reward = build(**options).on_reward(rollout, GivenScores(replaced), record)
    rewards, margins = literal_ced(rollout, replaced, **options)
    torch.testing.assert_close(reward, torch.tensor(rewards, dtype=torch.float64), rtol=0, atol=ATOL)
    margin = record.per_response["ced/margin"]
    torch.testing.assert_close(margin, torch.tensor(margins, dtype=torch.float64), rtol=0, atol=ATOL)


def one(
    s_ev: float, s_non: Sequence[float], correct: bool, family: str = "counting", reward: float = 0.0
) -> tuple[Rollout, GivenScores]:
    """One response of two tokens, the second being the answer, with the drops as given."""
    mask, answer = torch.tensor([[[True, True]]]), torch.tensor([[[False, True]]])
    logp = torch.tensor([[[-0.7, -1.0]]], dtype=torch.float64)
    scores = [logp - torch.tensor([9.0, drop]) for drop in (s_ev, *s_non)]
    samples, right = [sample_of("s", family)], torch.tensor([[correct]])
    rollout = make_rollout(samples, mask, answer, logp, right, torch.tensor([[reward]], dtype=torch.float64))
    return rollout, GivenScores(scores)


def reward_of(case: tuple[Rollout, GivenScores], **options: Any) -> float:
    return float(build(k=len(case[1].given) - 1, **options).on_reward(*case, Record()))


# Equal references saturate the margin: m = 1, -1, 0; g = .9999546, .0000454, .5; eps m = .1, -.1, 0.
# s_non = (0, .5, 1): mean .5, population std .4082483, so s_ev = 1 gives m = tanh(1.2247419) = .8410474,
# g = .9997775 and R = 1.0838823.
TABLE = [
    ("grounded", 2.0, (0.3, 0.3, 0.3), {"right": 1.0999546, "wrong": 0.1}),
    ("ungrounded", 0.0, (0.3, 0.3, 0.3), {"right": -0.0999546, "wrong": -0.1}),
    ("neutral", 0.25, (0.25, 0.25, 0.25), {"right": 0.5, "wrong": 0.0}),
    ("spread", 1.0, (0.0, 0.5, 1.0), {"right": 1.0838823, "wrong": 0.0841047}),
]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("correct", [True, False], ids=["right", "wrong"])
@pytest.mark.parametrize(("name", "s_ev", "s_non", "rewards"), TABLE, ids=[row[0] for row in TABLE])
def test_table_by_hand(
    name: str, s_ev: float, s_non: tuple[float, ...], rewards: dict[str, float], correct: bool, family: str
) -> None:
    routed = family in ("counting", "attribute", "spatial")
    expected = rewards["right" if correct else "wrong"] if routed else float(correct)
    assert reward_of(one(s_ev, s_non, correct, family)) == pytest.approx(expected, abs=ATOL)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"margin": "raw"}, 0.5 * (1 + math.tanh(0.5 / 0.2)) + 0.05),
        ({"margin": "raw", "answer_reward": "signed", "gated": False}, 1.05),
        ({"sigma_floor": 1.0, "margin": "standardized", "gated": False}, 1 + 0.1 * math.tanh(0.5)),
        # log-probs -.7, -1 of which the last is the answer
        ({"gated": False, "eps": 0.0, "answer_reward": "composite"}, 0.3 * math.exp(-1) + 0.7 * math.exp(-0.85 / 0.2)),
    ],
)
def test_variants_by_hand(options: dict[str, Any], expected: float) -> None:
    assert reward_of(one(1.0, (0.0, 0.5, 1.0), True, reward=0.2), **options) == pytest.approx(expected, abs=ATOL)


def test_gate() -> None:
    margin = torch.tensor([-1.0, -0.2, 0.0, 0.2, 1.0], dtype=torch.float64)
    by_hand = torch.tensor([0.0000454, 0.1192029, 0.5, 0.8807971, 0.9999546], dtype=torch.float64)
    torch.testing.assert_close(ced_gate(margin, 0.2), by_hand, rtol=0, atol=1e-7)


def test_margins_do_not_change_with_a_common_shift() -> None:
    """What every region costs alike is no evidence (1e-5: float32)."""
    s_ev, s_non = torch.randn(40), torch.randn(40, 3)
    for margin in MARGINS.values():
        torch.testing.assert_close(margin(s_ev + 3, s_non + 3), margin(s_ev, s_non), rtol=0, atol=1e-5)


@pytest.mark.parametrize("answer_reward", REWARDS)
@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("correct", [True, False], ids=["right", "wrong"])
def test_grounded_never_scores_below_ungrounded(answer_reward: str, margin: str, correct: bool) -> None:
    """Of two answers that are both wrong (or both right), the one that needs the evidence more."""
    found = [
        reward_of(one(s_ev, (0.1, 0.2, 0.3), correct), answer_reward=answer_reward, margin=margin)
        for s_ev in (-2.0, -0.5, 0.0, 0.2, 0.4, 1.0, 2.0)
    ]
    assert found == sorted(found) and found[0] < found[-1]


@pytest.mark.parametrize("answer_reward", REWARDS)
@pytest.mark.parametrize("scope", ["answer", "response"])
def test_nothing_to_measure_leaves_the_plain_answer_reward(answer_reward: str, scope: str) -> None:
    """Prompt 0 is text only; prompt 1 has a picture, but its responses lack an answer, or any token."""
    masks = torch.ones(2, 2, 4, dtype=torch.bool)
    masks[1] = scope == "answer"
    answers = torch.tensor([True, False])[:, None, None] & masks
    logp, *replaced = -torch.rand(5, 2, 2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    samples = [sample_of("0", "counting", seen=False), sample_of("1", "counting")]
    correct, before = torch.tensor([[True, False]] * 2), torch.tensor([[0.4, -0.3]] * 2)
    rollout = make_rollout(samples, masks, answers, logp, correct, before)
    scorer, record = GivenScores(replaced), Record()
    reward = build(scope=scope, answer_reward=answer_reward).on_reward(rollout, scorer, record)
    torch.testing.assert_close(reward, REWARDS[answer_reward](rollout).to(reward), rtol=0, atol=0)
    assert not scorer.where_BG.any(), "nothing is asked of the scorer"
    assert not record.per_response["ced/margin"].any() and not record.per_response["ced/s_ev"].any()


def test_no_margin_where_nothing_is_measured() -> None:
    """Whatever a margin function says of drops that are not there."""
    rollout, replaced = random_case(4, 3)
    record, scorer = Record(), GivenScores(replaced)
    CED(margin=lambda s_ev, s_non_K, sigma_floor: s_ev + 1).on_reward(rollout, scorer, record)
    assert not scorer.where_BG.all()
    assert not record.per_response["ced/margin"][~scorer.where_BG].any()


@pytest.mark.parametrize(("gold", "routed"), [("2", True), ("yes", False), ("No ", False)])
def test_yes_no_questions_are_graded_by_correctness_alone(gold: str, routed: bool) -> None:
    assert CED().routes(Sample("x", (), "q", gold, "attribute")) is routed


def test_unrouted_family_keeps_its_margin_in_the_record() -> None:
    case, record = one(2.0, (0.0, 0.0, 0.0), True, "presence"), Record()
    assert float(build().on_reward(*case, record)) == 1.0
    assert float(record.per_response["ced/margin"]) == pytest.approx(1.0)


def test_views_asked_of_the_scorer() -> None:
    rollout, replaced = random_case(1, 4)
    scorer, method = GivenScores(replaced), build(k=4, scope="response", filling=Zero(), ring=1)
    method.on_reward(rollout, scorer, Record())
    regions = [Evidence(), *map(Reference, range(4))]
    assert scorer.views == tuple(View(image=FeatureReplace(r, Zero(), 1), scored=Scored.RESPONSE) for r in regions)
    assert tuple(method.extra_views(0)) == scorer.views
    assert build().views[0] == View(image=FeatureReplace(Evidence(), RingMean(), 2), scored=Scored.ANSWER)


@pytest.mark.parametrize(
    "options",
    [
        {"scope": "response"},
        {"margin": "raw"},
        {"sigma_floor": 1.0},
        {"answer_reward": "signed"},
        {"answer_reward": "composite"},
        {"routed_families": ("counting",)},
        {"gated": False},
        {"k": 2},
        {"tau": 1.0},
        {"eps": 0.5},
        {"filling": Zero()},
        {"ring": 1},
        {"reward_clip": (0.0, 0.5)},
        {"format_penalty": -0.75},
        {"quality": Quality(min_area=0.1)},
    ],
    ids=str,
)
def test_every_parameter_has_an_effect(options: dict[str, Any]) -> None:
    """Three families with right and wrong answers, and one response without an answer."""
    mask, answers = torch.ones(3, 4, 5, dtype=torch.bool), torch.zeros(3, 4, 5, dtype=torch.bool)
    answers[..., 3:] = True
    answers[0, 0] = False
    correct = torch.tensor([[False, True, False, True]] * 3)
    logp = torch.full((3, 4, 5), -0.1, dtype=torch.float64)
    samples = [sample_of(family, family) for family in FAMILIES[:3]]
    rollout = make_rollout(samples, mask, answers, logp, correct, torch.full((3, 4), 0.2, dtype=torch.float64))
    default, changed = (build(**o).on_reward(rollout, HashedScores(), Record()) for o in ({}, options))
    assert (default - changed).abs().max() > 1e-3


def test_recorded_metrics() -> None:
    """Two prompts: one with a box, one with the centred fallback; the second's evidence does not beat random."""
    samples = [sample_of("0", "counting"), replace(sample_of("1", "spatial"), bbox=None)]
    mask = torch.ones(2, 1, 1, dtype=torch.bool)
    scores = [torch.tensor([-2.0, 0.0]), torch.tensor([-0.5, -0.5]), torch.tensor([-1.5, -1.5])]
    correct, zeros = torch.tensor([[True], [False]]), torch.zeros(2, 1)
    rollout = make_rollout(samples, mask, mask, torch.zeros(2, 1, 1), correct, zeros)
    record = Record()
    build(k=2, margin="raw").on_reward(rollout, GivenScores([s.view(2, 1, 1) for s in scores]), record)
    assert record.scalars == pytest.approx(
        {
            "ced/s_ev": 1.0,
            "ced/s_non": 1.0,
            "ced/margin": 0.0,
            "ced/gate": 0.9999546,  # of the right answer, m = 1
            "ced/relevant_beats_random": 0.5,
            "ced/relevant_beats_random_counting": 1.0,
            "ced/relevant_beats_random_spatial": 0.0,
            "ced/gap_counting": 1.0,
            "ced/gap_spatial": -1.0,
            **dict.fromkeys((f"ced/box_{source}_rate" for source in ("proposal", "target", "argument")), 0.0),
            "ced/box_bbox_rate": 0.5,
            "ced/box_centred_rate": 0.5,
            **dict.fromkeys((f"ced/rejected_{fault}_rate" for fault in ("area", "tokens", "reference")), 0.0),
            "ced/routed_rate": 1.0,
        },
        abs=ATOL,
    )
    assert record.per_response["ced/margin"].tolist() == [[1.0], [-1.0]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"k": 0}, "k=0 must be at least 1"),
        ({"tau": 0.0}, "tau=0.0 above 0"),
        ({"tau": -0.2}, "tau=-0.2 above 0"),
        ({"scope": "prompt"}, "scope='prompt' does not exist; use one of response, answer"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        CED(**options)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("options", [{}, {"eps": 0.0}, {"gated": False}, {"gated": False, "eps": 0.0}], ids=str)
def test_responses_that_cannot_matter_are_skipped_without_a_trace(seed, options):
    """Between watched steps fewer responses are scored, and every reward is the same."""
    rollout, replaced = random_case(seed, 3)
    watched, skipping = GivenScores(replaced), GivenScores(replaced)
    expected = CED(**options).on_reward(rollout, watched, Record())
    reward = CED(**options).on_reward(replace(rollout, step=1), skipping, Record())
    assert torch.equal(reward, expected)
    assert (skipping.where_BG <= watched.where_BG).all()
    unrouted = torch.tensor([not CED().routes(sample) for sample in rollout.prompts.samples])
    assert not skipping.where_BG[unrouted].any()
    if options.get("eps") == 0:
        assert not skipping.where_BG[~rollout.grades.correct_BG].any()
    always = GivenScores(replaced)
    CED(watch_every=1, **options).on_reward(replace(rollout, step=1), always, Record())
    assert torch.equal(always.where_BG, watched.where_BG)


BOXES = {  # on 128 x 128 pixels in 16 x 16 patches: what is wrong with them
    "fair": (Box(8, 8, 32, 32), None),
    "smallest": (Box(8, 8, 8, 10.24), None),
    "small": (Box(8, 8, 8, 10), "area"),
    "large": (Box(0, 0, 100, 100), "area"),
    "thin": (Box(9, 0, 14, 128), "tokens"),  # between the centres 8 and 24 of two columns
    "broad": (Box(0, 32, 128, 64), "reference"),  # every other place of its size overlaps it by a third or more
}


@pytest.mark.parametrize("name", BOXES)
def test_the_quality_filter_by_hand(name: str) -> None:
    """A box that fails is not measured, its answers are graded by correctness only, and the fault is counted."""
    box, fault = BOXES[name]
    (rollout, scorer), record = one(2.0, (0.3, 0.3, 0.3), True), Record()
    sample = replace(rollout.prompts.samples[0], bbox=box)
    rollout = replace(rollout, prompts=replace(rollout.prompts, samples=(sample,)))
    assert Quality().fault(sample, GRID, 3) == fault
    assert float(build().on_reward(rollout, scorer, record)) == pytest.approx(1.0 if fault else 1.0999546, abs=ATOL)
    assert bool(scorer.where_BG.any()) == (fault is None)
    for kind in ("area", "tokens", "reference"):
        assert record.scalars[f"ced/rejected_{kind}_rate"] == float(kind == fault)
    unfiltered = build(quality=None).on_reward(rollout, scorer, Record())
    assert float(unfiltered) == pytest.approx(1.0999546, abs=ATOL)


def test_where_boxes_come_from_is_counted_by_source() -> None:
    """By priority; text-only prompts do not count."""
    box = Box(8, 8, 32, 32)
    given = [
        {"proposal_bbox": box, "bbox": box},
        {"target_bbox": box, "argument_bbox": box},
        {"argument_bbox": box},
        {},
    ]
    samples = [Sample(str(i), (PICTURE,), "q", "a", **boxes) for i, boxes in enumerate(given)]
    samples.append(Sample("text", (), "q", "a"))
    grids = (GRID,) * 4 + (None,)
    fit, rates = measurable(Prompts(tuple(samples), (torch.zeros(1),) * 5, (None,) * 5, grids), Quality(), 3)
    assert fit.tolist() == [True] * 4 + [False]
    sources = {"proposal": 0.25, "target": 0.25, "argument": 0.25, "bbox": 0.0, "centred": 0.25}
    assert {name: rates[f"box_{name}"] for name in sources} == sources


@pytest.mark.parametrize("options", [{"min_area": 0.7}, {"min_area": -0.1}, {"max_area": 1.5}])
def test_areas_out_of_order_are_named(options: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"callbacks.ced.quality: min_area="):
        Quality(**options)
