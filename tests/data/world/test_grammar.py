"""The language of responses: spans, the oracle of claims, and the demonstrations written in it."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Callable

import pytest

from mmcredit.data.world.demonstrations import Demonstrations, short_evidence, think
from mmcredit.data.world.grammar import Claim, Verdict, judge, parse, phrase, unsupported
from mmcredit.data.world.questions import Question
from mmcredit.data.world.scene import COLORS, CORNERS, SHAPES, corner_of
from mmcredit.data.world.source import World
from mmcredit.types import Box, SceneObject

S, C, N = Verdict.SUPPORTED, Verdict.CONTRADICTED, Verdict.NOT_VISUAL
SIGMAS = 4
PLACES = {"top left": (8, 8), "top right": (100, 8), "bottom left": (8, 100), "bottom right": (100, 100)}
Writer = Callable[[Question, str], tuple[list[str], str]]


def thing(text: str) -> SceneObject:
    """``red circle top left`` as an object."""
    color, shape, corner = text.split(" ", 2)
    return SceneObject(shape, color, "small", Box(*PLACES[corner], 18, 18))


SCENE = [
    thing("red circle top left"),
    thing("red circle top right"),
    thing("blue square top left"),
    thing("green triangle bottom right"),
]


@pytest.mark.parametrize(
    ("response", "claims"),
    [
        (
            r"red circle top left . no blue square . \boxed{2}",
            [("red", "circle", "top left", False), ("blue", "square", None, True)],
        ),
        ("Evidence: red object bottom right\nFinal answer: circle", [("red", None, "bottom right", False)]),
        ("Evidence: triangle\nFinal answer: red", [(None, "triangle", None, False)]),
        (r"there are circles , and a square top \boxed{red circle}", [(None, "square", None, False)]),
        ("squared redcircle reddish", []),
        ("", []),
        (r"\boxed{red circle top left}", []),
    ],
)
def test_parse(response: str, claims: list[tuple]) -> None:
    assert [(c.color, c.shape, c.corner, c.negated) for c in parse(response)] == claims


@pytest.mark.parametrize("write", [think, short_evidence])
def test_spans_slice_back_to_the_phrase(write: Writer) -> None:
    demonstrations = Demonstrations(World("val", 80), write)
    for i in range(80):
        response = demonstrations.response(i)
        claims = parse(response)
        said = write(demonstrations.world.question(i), "x")[0]
        assert [response[c.start : c.end] for c in claims] == said
        assert [("no " if c.negated else "") + phrase(c.color, c.shape, c.corner) for c in claims] == said


@pytest.mark.parametrize(
    ("response", "verdicts"),
    [
        ("red circle top left .", [S]),
        ("red circle bottom left .", [C]),
        ("blue circle top left .", [C]),
        ("red square .", [C]),
        ("green triangle .", [S]),
        ("circle top right .", [S]),
        ("red object top left .", [S]),
        ("blue object bottom right .", [C]),
        ("circle .", [N]),
        ("red object .", [N]),
        ("no yellow square .", [S]),
        ("no blue square .", [C]),
        ("no blue square bottom right .", [S]),
        ("no triangle .", [C]),
        ("blue square top left . blue square top left .", [S, C]),
        ("red circle top left . red circle top right .", [S, S]),
        ("red circle . red circle .", [S, S]),
        ("red circle . red circle . red circle .", [S, S, C]),
        ("red circle . red circle top left . red circle top right .", [S, S, C]),
        ("red object top left . circle top left .", [S, C]),
        ("circle top left . no red square . square top left .", [S, S, S]),
        ("Evidence: red circle\nFinal answer: yes", [N]),
        ("Evidence: yellow circle\nFinal answer: no", [N]),
        ("Evidence: red circle top right\nFinal answer: 2", [S]),
        ("Evidence: red circle bottom right\nFinal answer: 2", [C]),
        ("Evidence: triangle bottom right\nFinal answer: green", [S]),
        ("Evidence: no yellow circle\nFinal answer: no", [S]),
        ("Evidence: no red circle\nFinal answer: no", [C]),
        (r"yellow circle top left . \boxed{blue square bottom left}", [C]),
    ],
)
def test_verdicts(response: str, verdicts: list[Verdict]) -> None:
    assert list(judge(parse(response), SCENE)) == verdicts
    assert unsupported(response, SCENE) == (C in verdicts)


def test_verdict_does_not_hang_on_the_order_of_the_objects() -> None:
    claims = parse("red circle . red circle top left .")
    for order in itertools.permutations(SCENE):
        assert judge(claims, order) == (S, S)


def most_supported(claims: tuple[Claim, ...], objects: list[SceneObject]) -> int:
    """The largest number of claims with an object each, by trying every assignment."""
    best = 0
    for chosen in itertools.product([None, *range(len(objects))], repeat=len(claims)):
        used = [i for i in chosen if i is not None]
        fits = all(
            c.color in (None, o.color) and c.shape in (None, o.shape) and c.corner in (None, corner_of(o.box))
            for c, o in ((c, objects[i]) for c, i in zip(claims, chosen, strict=True) if i is not None)
        )
        if fits and len(used) == len(set(used)):
            best = max(best, len(used))
    return best


def test_as_many_claims_are_supported_as_any_assignment_allows() -> None:
    rng = random.Random(0)
    for _ in range(60):
        words = [rng.choice(["red", "blue"]), rng.choice(["circle", "square"]), rng.choice(CORNERS[:2])]
        objects = [
            thing(f"{rng.choice(['red', 'blue'])} {rng.choice(['circle', 'square'])} {rng.choice(CORNERS[:2])}")
            for _ in range(4)
        ]
        texts = [phrase(words[0], None, words[2]), phrase(None, words[1], words[2]), phrase(*words[:2])]
        texts += [phrase(rng.choice(["red", "blue"]), "circle", rng.choice(CORNERS[:2]))]
        claims = parse(" . ".join(rng.sample(texts, 4)))
        assert all(c.visual for c in claims)
        assert judge(claims, objects).count(S) == most_supported(claims, objects)


@pytest.mark.parametrize("split", ["train", "val", "counter_prior"])
@pytest.mark.parametrize("write", [think, short_evidence])
def test_clean_demonstrations_are_never_contradicted(split: str, write: Writer) -> None:
    demonstrations = Demonstrations(World(split, 200), write)
    for i in range(200):
        assert not unsupported(demonstrations.response(i), demonstrations.world.question(i).objects), i


def given_answer(response: str) -> str:
    found = re.search(r"\\boxed\{(.*)\}|Final answer: (.*)", response)
    assert found is not None
    return found[1] or found[2]


@pytest.mark.parametrize("write", [think, short_evidence])
def test_planted_answers_keep_their_shares(write: Writer) -> None:
    shortcut, slip, n = 0.3, 0.2, 1200
    demonstrations = Demonstrations(World("val", n, seed=1), write, shortcut=shortcut, slip=slip)
    wrong, prior = [], []  # (expected, found)
    for i in range(n):
        q, given = demonstrations.world.question(i), given_answer(demonstrations.response(i))
        assert given in q.options
        unusual = q.answer != q.prior_answer
        wrong.append((shortcut * unusual + slip, given != q.answer))
        if unusual:
            prior.append((shortcut + slip / (len(q.options) - 1), given == q.prior_answer))
    for pairs in (wrong, prior):
        spread = math.sqrt(sum(p * (1 - p) for p, _ in pairs))
        assert abs(sum(found - p for p, found in pairs)) <= SIGMAS * spread


@pytest.mark.parametrize(
    ("write", "families"),
    [(think, ("counting", "attribute", "spatial")), (short_evidence, ("counting", "attribute"))],
)
def test_false_claims_keep_their_share(write: Writer, families: tuple[str, ...] | None) -> None:
    share, n = 0.35, 900
    world = World("val", n, seed=2, **({"families": families} if families else {}))
    demonstrations = Demonstrations(world, write, false_claim=share)
    found = sum(unsupported(demonstrations.response(i), world.question(i).objects) for i in range(n))
    assert abs(found - share * n) <= SIGMAS * math.sqrt(share * (1 - share) * n)


def test_at_most_one_claim_is_made_false() -> None:
    world = World("val", 200, seed=2)
    clean, faulty = (Demonstrations(world, think, false_claim=p) for p in (0.0, 1.0))
    for i in range(200):
        pairs = zip(clean.response(i).split(" . "), faulty.response(i).split(" . "), strict=True)
        assert sum(a != b for a, b in pairs) <= 1


@pytest.mark.parametrize("family", ["attribute", "spatial", "counting"])
@pytest.mark.parametrize("false_claim", [0.0, 1.0])
def test_short_evidence_does_not_name_the_answer(family: str, false_claim: float) -> None:
    world = World("val", 200, families=(family,))
    demonstrations = Demonstrations(world, short_evidence, slip=0.3, false_claim=false_claim)
    for i in range(200):
        q = world.question(i)
        evidence, answer = demonstrations.response(i).split("\nFinal answer: ")
        assert answer in q.options
        assert not any(re.search(rf"\b{option}\b", evidence) for option in q.options), (q.text, evidence)


def test_words_of_the_grammar_are_distinct() -> None:
    words = [*COLORS, *SHAPES, *CORNERS, "object"]
    assert not any(a != b and a in b for a in words for b in words), "a word inside another would be mistaken for it"
