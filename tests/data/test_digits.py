"""Mosaics of handwritten digits: pure functions of the index, exact boxes and answers, pictures that are held out."""

from __future__ import annotations

import itertools
import random
import re
import sys

import numpy as np
import pytest

from mmcredit.data.sources.digits import SIDES, Digits, InkedDigit, ink, part_of, pictures, pool
from mmcredit.data.world.demonstrations import Demonstrations, short_evidence, think
from mmcredit.data.world.grammar import Verdict, judge, parse
from mmcredit.data.world.questions import FAMILIES
from mmcredit.data.world.scene import CANVAS, COLORS, DIGITS, render
from mmcredit.functional import stable_seed
from mmcredit.types import Box, Sample, SceneObject, UserError

SAMPLES = 200


@pytest.fixture(scope="module", params=["train", "val"])
def samples(request: pytest.FixtureRequest) -> list[Sample]:
    digits = Digits(request.param, SAMPLES, seed=3)
    return [digits[i] for i in range(SAMPLES)]


def solve(question: str, objects: tuple[SceneObject, ...]) -> tuple[str, set[Box]]:
    """Answer and the boxes that matter, by looking at every object."""
    words = re.findall(r"[a-z]+", question.replace("sixes", "six"))
    color = next((w for w in words if w in COLORS), None)
    digit = next((w.removesuffix("s") for w in words if w in DIGITS or w.removesuffix("s") in DIGITS), None)
    digit = "six" if digit == "six" or "six" in words else digit
    matching = [o for o in objects if color in (None, o.color) and digit in (None, o.shape)]
    boxes = {o.box for o in matching}
    if question.startswith("how many"):
        return str(len(matching)), boxes
    if question.startswith("is there"):
        return "yes" if matching else "no", boxes
    assert len(matching) == 1, f"{question!r} speaks of {len(matching)} digits"
    (o,) = matching
    x, y = o.box.centre
    corner = f"{'top' if y < 64 else 'bottom'} {'left' if x < 64 else 'right'}"
    return {"what": o.color, "which": o.shape if "digit" in words else corner}[words[0]], boxes


def test_pictures_are_split_without_overlap_and_none_is_lost() -> None:
    train, val = ({i for found in pool(split).values() for i in found} for split in ("train", "val"))
    assert not train & val and train | val == set(range(1797))
    assert 400 <= len(val) <= 500
    assert min(len(found) for split in ("train", "val") for found in pool(split).values()) >= 30
    labels = pictures()[1]
    assert all(labels[i] == DIGITS.index(name) for name, found in pool("val").items() for i in found)


def test_no_shown_digit_belongs_to_the_other_split(samples: list[Sample]) -> None:
    shown = {o.picture for s in samples for o in s.objects if isinstance(o, InkedDigit)}
    assert len(shown) > 100
    assert {part_of(picture) for picture in shown} == {samples[0].id.split("-")[2]}


def test_sample_does_not_depend_on_size_order_or_global_state() -> None:
    first = [Digits("val", 8, seed=5)[i] for i in range(8)]
    random.seed(99)
    np.random.seed(99)
    other = Digits("val", 1000, seed=5)
    assert all(other[i] == first[i] for i in (7, 0, 3, 5))
    assert Digits("val", 8, seed=6)[0].objects != first[0].objects


def test_answers_and_boxes_are_those_of_a_search(samples: list[Sample]) -> None:
    for s in samples:
        answer, boxes = solve(s.question, s.objects)
        assert (s.answer, set(s.boxes)) == (answer, boxes), s.question
        assert s.proposal_bbox == (s.boxes[0] if s.boxes else None)
    assert {s.family for s in samples} == set(FAMILIES)


def test_boxes_hold_the_changed_pixels_and_no_more(samples: list[Sample]) -> None:
    """Against the bare texture: each box is the extent of what differs in it, and nothing differs elsewhere."""
    for s in samples:
        bare = np.asarray(render((), stable_seed(s.id, "texture")))
        differs = (np.asarray(s.images[0]) != bare).any(-1)
        for o in s.objects:
            x, y, w, h = map(int, (o.box.x, o.box.y, o.box.w, o.box.h))
            part = differs[y : y + h, x : x + w]
            assert part.shape == (h, w) and part[[0, -1]].any(1).all() and part[:, [0, -1]].any(0).all(), s.id
            part[:] = False
        assert not differs.any(), s.id


def test_digits_do_not_overlap_and_number_two_to_seven(samples: list[Sample]) -> None:
    for s in samples:
        assert 2 <= len(s.objects) <= 7 and s.images[0].size == (CANVAS, CANVAS)
        assert all(a.box.iou(b.box) == 0 for a, b in itertools.combinations(s.objects, 2))


def test_ink_is_the_picture_scaled() -> None:
    """Averaged back to 8 x 8, the ink follows the picture."""
    for picture, side in itertools.product((0, 7, 1000), SIDES.values()):
        small = pictures()[0][picture]
        back = ink(picture, side)[np.ix_(*[((np.arange(8) + 0.5) * side / 8).astype(int)] * 2)]
        assert np.corrcoef(small.ravel(), back.ravel())[0, 1] > 0.97


def test_the_oracle_understands_responses(samples: list[Sample]) -> None:
    """Faultless responses hold no false claim, those with a planted one do."""
    digits = Digits("train", SAMPLES, seed=3)
    for i in range(0, SAMPLES, 3):
        q = digits.question(i)
        claims = parse(Demonstrations(digits, think).response(i))
        assert len(claims) == max(len(q.relevant), 1)
        assert set(judge(claims, q.objects)) == {Verdict.SUPPORTED}
        if not q.relevant:
            continue  # a denial is true of most colours
        planted = parse(Demonstrations(digits, think, false_claim=1.0).response(i))
        assert Verdict.CONTRADICTED in judge(planted, q.objects)
    assert Demonstrations(digits, short_evidence).response(1).startswith("Evidence: ")


@pytest.mark.parametrize("wrong", [{"split": "counter_prior"}, {"families": ("colour",)}])
def test_unknown_split_or_family(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match="does not exist; the digits has"):
        Digits(**{"split": "val", "size": 4, **wrong})


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UserError, match=r"data=digits needs the package scikit-learn.*mmcredit\[corpora\]"):
        Digits("val", 4)
    pictures.cache_clear()
