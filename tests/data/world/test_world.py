"""The embedded world: pure function of its index, exact boxes and answers, planted priors."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
import re
from collections import Counter

import numpy as np
import pytest

from mmcredit.data.world.questions import FAMILIES, SPLITS
from mmcredit.data.world.scene import CANVAS, COLORS, MAX_OBJECTS, SHAPES
from mmcredit.data.world.source import World
from mmcredit.types import Box, Sample, SceneObject, UserError

SAMPLES = 300
QUESTIONS = 2000  # drawn without rendering, for the shares
SIGMAS = 4  # binomial bounds; a fixed seed makes the outcome repeatable
# Renew both pins only with a change of the world that is meant: a model trained on the old one no longer fits.
PINNED_QUESTION = "which corner is the blue square in?"
PINNED_PICTURE = "b8eed7cedb482d5ee14895e49ac639a6f3d556db227743dee44c67de6844f8fd"  # sha256 of the RGB bytes


@pytest.fixture(scope="module", params=list(SPLITS))
def samples(request: pytest.FixtureRequest) -> list[Sample]:
    world = World(request.param, SAMPLES, seed=3)
    return [world[i] for i in range(SAMPLES)]


def overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.w and b.x < a.x + a.w and a.y < b.y + b.h and b.y < a.y + a.h


def corner(box: Box) -> str:
    vertical = "top" if box.y + box.h / 2 < 64 else "bottom"
    return f"{vertical} {'left' if box.x + box.w / 2 < 64 else 'right'}"


def solve(question: str, objects: tuple[SceneObject, ...]) -> tuple[str, set[Box]]:
    """Answer and the boxes that matter, by looking at every object."""
    words = re.findall(r"[a-z]+", question)
    color = next((w for w in words if w in COLORS), None)
    shape = next((w.removesuffix("s") for w in words if w.removesuffix("s") in SHAPES), None)
    matching = [o for o in objects if color in (None, o.color) and shape in (None, o.shape)]
    boxes = {o.box for o in matching}
    if question.startswith("how many"):
        return str(len(matching)), boxes
    if question.startswith("is there"):
        return "yes" if matching else "no", boxes
    assert len(matching) == 1, f"{question!r} speaks of {len(matching)} objects"
    (o,) = matching
    if question.startswith("what color"):
        return o.color, boxes
    return (o.shape if question.startswith("what shape") else corner(o.box)), boxes


def test_pinned_sample() -> None:
    sample = World("train", 10, seed=0)[2]
    assert sample.question == PINNED_QUESTION
    assert hashlib.sha256(sample.images[0].tobytes()).hexdigest() == PINNED_PICTURE


def test_sample_does_not_depend_on_size_order_or_global_state() -> None:
    first = [World("val", 8, seed=5)[i] for i in range(8)]
    random.seed(99)
    np.random.seed(99)
    other = World("val", 1000, seed=5)
    for i in (7, 0, 3, 5):
        assert other[i] == first[i]


def test_seed_split_and_index_each_change_the_scene() -> None:
    scenes = [
        World(split, 9, seed=seed)[index].objects
        for split, seed, index in [("val", 0, 0), ("val", 1, 0), ("train", 0, 0), ("val", 0, 4)]
    ]
    assert len(set(scenes)) == 4
    same_law = [World(split, 1, prior=0.0)[0].objects for split in ("train", "counter_prior")]
    assert same_law[0] != same_law[1]


def test_index_outside_the_world_ends_iteration() -> None:
    world = World("val", 3)
    assert len(list(world)) == len(world) == 3
    with pytest.raises(IndexError):
        world[3]


def test_objects_lie_on_the_canvas_and_do_not_overlap(samples: list[Sample]) -> None:
    for s in samples:
        boxes = [o.box for o in s.objects]
        assert 2 <= len(boxes) <= MAX_OBJECTS == 7
        assert all(b.x >= 0 and b.y >= 0 and b.x + b.w <= CANVAS and b.y + b.h <= CANVAS for b in boxes), s.id
        assert not any(overlap(a, b) for a, b in itertools.combinations(boxes, 2)), s.id


def test_picture_shows_the_objects_and_nothing_else(samples: list[Sample]) -> None:
    for s in samples[:60]:
        pixels = np.asarray(s.images[0]).copy()
        assert pixels.shape == (CANVAS, CANVAS, 3)
        for o in s.objects:
            x, y = map(int, o.box.centre)
            assert tuple(pixels[y, x]) == COLORS[o.color], s.id
        for o in s.objects:  # drawing includes the last row and column
            x, y, w, h = map(int, (o.box.x, o.box.y, o.box.w, o.box.h))
            pixels[y : y + h + 1, x : x + w + 1] = 255
        assert pixels.min() >= 232, s.id


def test_answer_and_boxes_agree_with_the_scene(samples: list[Sample]) -> None:
    assert Counter(s.family for s in samples) == dict.fromkeys(FAMILIES, SAMPLES // len(FAMILIES))
    for s in samples:
        answer, boxes = solve(s.question, s.objects)
        assert (s.answer, set(s.boxes)) == (answer, boxes), s.id
        assert len(s.boxes) == len(boxes), s.id


def test_primary_box_is_the_first_in_reading_order(samples: list[Sample]) -> None:
    for s in samples:
        assert s.proposal_bbox == (s.boxes[0] if s.boxes else None)
        if s.boxes:
            assert s.boxes[0] == min(s.boxes, key=lambda b: (b.centre[1] // 32, b.centre[0]))
    assert any(not s.boxes for s in samples), "some questions ask for what is not there"


@pytest.mark.parametrize(("split", "share"), [("train", 0.6), ("train", 0.25), ("val", None), ("counter_prior", 0.0)])
def test_share_of_prior_answers(split: str, share: float | None) -> None:
    world = World(split, QUESTIONS, seed=4, prior=share or 0.6)
    questions = [world.question(i) for i in range(QUESTIONS)]
    expected = [1 / len(q.options) if share is None else share for q in questions]
    spread = math.sqrt(sum(p * (1 - p) for p in expected))
    found = sum(q.answer == q.prior_answer for q in questions)
    assert abs(found - sum(expected)) <= SIGMAS * spread


@pytest.mark.parametrize(("prior", "found"), [(0.0, set()), (1.0, {True})])
def test_prior_share_reaches_its_ends(prior: float, found: set[bool]) -> None:
    world = World("train", 200, prior=prior)
    answers = {q.answer == q.prior_answer for q in map(world.question, range(200))}
    assert answers == (found or {False})


def test_prior_answer_depends_on_the_question_alone() -> None:
    world = World("val", QUESTIONS)
    priors: dict[str, set[str]] = {}
    for q in map(world.question, range(QUESTIONS)):
        priors.setdefault(q.text, set()).add(q.prior_answer)
    assert all(len(found) == 1 for found in priors.values())
    assert all(world[i].meta["prior_answer"] in priors[world[i].question] for i in range(20))


def test_val_is_balanced_over_the_options() -> None:
    world = World("val", QUESTIONS, seed=6)
    counts: dict[tuple[str, ...], Counter[str]] = {}
    for q in map(world.question, range(QUESTIONS)):
        counts.setdefault(q.options, Counter())[q.answer] += 1
    assert len(counts) == 5  # colours, shapes, counts, corners, yes or no
    for options, counter in counts.items():
        n, p = counter.total(), 1 / len(options)
        for option in options:
            assert abs(counter[option] - n * p) <= SIGMAS * math.sqrt(n * p * (1 - p)), option


def test_families_are_taken_in_turn() -> None:
    world = World("val", 6, families=("spatial", "counting"))
    assert [world[i].family for i in range(4)] == ["spatial", "counting"] * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"split": "test"}, ["'test'", "counter_prior"]),
        ({"split": "val", "families": ("colour",)}, ["'colour'", "counting"]),
        ({"split": "train", "prior": 1.5}, ["1.5", "0..1"]),
        ({"split": "train", "prior": -0.1}, ["-0.1"]),
    ],
)
def test_mistakes_are_named(arguments: dict, words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        World(size=4, **arguments)
    assert all(word in str(error.value) for word in words)
