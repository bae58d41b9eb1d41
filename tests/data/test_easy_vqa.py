"""easy-VQA: what is read from the pixels agrees with every question of the package; one region a picture."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage

from mmcredit.data.gate import Outline
from mmcredit.data.source import Info
from mmcredit.data.sources.easy_vqa import COLORS, FAMILIES, SHAPES, EasyVQA, opened, region, shape_in
from mmcredit.data.world.demonstrations import Demonstrations, short_evidence, think
from mmcredit.data.world.grammar import Verdict, judge, parse
from mmcredit.types import Box, SceneObject, UserError

COUNTS = {"train": (4000, 38575), "test": (1000, 9673)}  # pictures and questions, from the package's read-me


@pytest.fixture(scope="module", params=list(COUNTS))
def source(request: pytest.FixtureRequest) -> EasyVQA:
    return EasyVQA(request.param)


def agrees(question: str, answer: str, shown: SceneObject) -> bool:
    """Whether the package's answer is true of what was read from the pixels."""
    words = question.rstrip("?").split()
    color = next((w for w in words if w in COLORS), shown.color)
    shape = next((w for w in words if w in SHAPES), shown.shape)
    there = (color, shape) == (shown.color, shown.shape)
    if answer in ("yes", "no"):
        return (answer == "yes") == (there != bool({"no", "not"} & set(words)))
    return there and answer == (shown.color if "color" in words else shown.shape)


def test_counts_are_the_package_s_own(source: EasyVQA) -> None:
    assert (len(source.paths), len(source)) == COUNTS[source.split]
    assert sorted(source.rows) == list(range(len(source)))


@pytest.mark.slow
def test_every_picture_holds_one_region_and_the_box_is_its_extent(source: EasyVQA) -> None:
    """All pictures: the box at the original size, by labelling connected regions."""
    for path in source.paths.values():
        with Image.open(path) as file:
            pixels = np.asarray(file.convert("RGB"))
        labels, count = ndimage.label(region(pixels), np.ones((3, 3)))
        assert count == 1, path
        rows, columns = ndimage.find_objects(labels)[0]
        found = (columns.start, rows.start, columns.stop - columns.start, rows.stop - rows.start)
        box = opened(path)[1].box
        assert tuple(2 * side for side in found) == (box.x, box.y, box.w, box.h), path


@pytest.mark.slow
def test_every_answer_is_true_of_the_pixels(source: EasyVQA) -> None:
    """All questions."""
    shown = {number: opened(path)[1] for number, path in source.paths.items()}
    assert all(agrees(text, answer, shown[number]) for text, answer, number in source.given)


def test_answers_boxes_and_families_of_some() -> None:
    source = EasyVQA("test", 200, seed=4)
    for i in range(len(source)):
        s, q = source[i], source.question(i)
        assert (s.question, s.answer, s.family) == (q.text, q.answer, q.family)
        assert s.boxes == (s.objects[0].box,) == (s.proposal_bbox,)
        assert agrees(s.question, s.answer, s.objects[0]), s.id
        assert (s.answer in ("yes", "no")) == (s.family == "presence")
        assert s.answer in q.options and q.prior_answer in q.options
        assert source.outline(i) == Outline(s.id, s.question, (s.images[0].size,), s.answer)
        assert source.info(i) == Info(s.family)
        x, y, w, h = map(int, (s.boxes[0].x, s.boxes[0].y, s.boxes[0].w, s.boxes[0].h))
        outside = np.asarray(s.images[0]).copy()
        background = outside[0, 0] if x or y else outside[-1, -1]
        outside[y : y + h, x : x + w] = background
        assert (outside == background).all(), s.id


@pytest.mark.parametrize(
    ("shape", "box"), [("rectangle", (4, 6, 20, 30)), ("circle", (10, 2, 41, 41)), ("triangle", (3, 3, 40, 35))]
)
def test_shape_in_a_drawn_picture(shape: str, box: tuple[int, int, int, int]) -> None:
    from PIL import ImageDraw

    picture = Image.new("RGB", (64, 64), (240, 250, 235))
    draw, (x, y, w, h) = ImageDraw.Draw(picture), box
    corners = (x, y, x + w - 1, y + h - 1)
    {
        "rectangle": lambda: draw.rectangle(corners, COLORS["teal"]),
        "circle": lambda: draw.ellipse(corners, COLORS["teal"]),
        "triangle": lambda: draw.polygon((x, y + h - 1, x + w - 1, y + h - 1, x + w // 2, y), COLORS["teal"]),
    }[shape]()
    size = "large" if max(w, h) >= 40 else "small"
    assert shape_in(picture) == SceneObject(shape, "teal", size, Box(*map(float, box)))


def test_the_order_is_the_seed_s_and_size_takes_its_beginning() -> None:
    rows = EasyVQA("test", seed=1).rows
    assert EasyVQA("test", 50, seed=1).rows == rows[:50] != EasyVQA("test", 50, seed=2).rows
    assert EasyVQA("test", 20)[7] == EasyVQA("test", 20)[7]


def test_splits_share_no_picture() -> None:
    train, test = (EasyVQA(split).paths.values() for split in ("train", "test"))
    assert not set(train) & set(test)
    hashes = [{hash(path.read_bytes()) for path in paths} for paths in (train, test)]
    assert not hashes[0] & hashes[1]


def test_families_can_be_chosen() -> None:
    counts = Counter(EasyVQA("test", families=(family,))[0].family for family in FAMILIES)
    assert counts == {"attribute": 1, "presence": 1}
    assert len(EasyVQA("test", families=("presence",))) == 7136  # from the package's read-me


def test_the_oracle_understands_responses() -> None:
    source = EasyVQA("train", 100)
    for i in range(len(source)):
        q = source.question(i)
        assert judge(parse(Demonstrations(source, think).response(i)), q.objects) == (Verdict.SUPPORTED,)
        planted = parse(Demonstrations(source, think, false_claim=1.0).response(i))
        assert judge(planted, q.objects) == (Verdict.CONTRADICTED,)
        claim = parse(Demonstrations(source, short_evidence).response(i))
        assert len(claim) == 1 and claim[0].visual == (q.family == "attribute")


@pytest.mark.parametrize("wrong", [{"split": "val"}, {"families": ("counting",)}])
def test_unknown_split_or_family(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError, match="does not exist; easy-vqa has"):
        EasyVQA(**{"split": "test", **wrong})


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "easy_vqa", None)
    with pytest.raises(UserError, match=r"data=easy_vqa needs the package easy-vqa.*mmcredit\[corpora\]"):
        EasyVQA("test")
