"""Bounds of boxes against the processor's own resize, the scorer's own tokens, and searches by brute force."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mmcredit.data.coco.fitness import Fitness, feasible, union
from mmcredit.data.coco.scene import Picture
from mmcredit.scoring.regions import Grid, region_tokens
from mmcredit.types import Box

COCO = [(640, 480), (480, 640), (640, 427), (333, 500), (500, 375), (51, 72), (640, 59), (3000, 2000)]


def picture(width: int, height: int) -> Picture:
    return Picture(1, "", width, height)


@pytest.mark.parametrize("size", COCO)
@pytest.mark.parametrize(("token", "low", "high"), [(28, 3136, 12845056), (32, 65536, 16777216), (28, 200704, 1003520)])
def test_the_resize_is_that_of_the_processors(size, token, low, high):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    height, width = smart_resize(size[1], size[0], token, low, high)
    assert Fitness(token=token, min_pixels=low, max_pixels=high).resized(picture(*size)) == (width, height)


@pytest.mark.parametrize("token", [28, 32])
def test_tokens_of_a_box_are_those_that_the_scorer_removes(token):
    """Wherever the box holds a patch's centre; the scorer takes the nearest one otherwise."""
    rng, fitness = random.Random(0), Fitness(token=token, min_pixels=65536)
    for _ in range(300):
        size = rng.choice(COCO[:6])
        width, height = fitness.resized(picture(*size))
        grid = Grid(2 * height // token, 2 * width // token, 2, *size)
        w, h = rng.uniform(1, size[0]), rng.uniform(1, size[1])
        box = Box(rng.uniform(0, size[0] - w), rng.uniform(0, size[1] - h), w, h)
        columns, rows = fitness.tokens(box, picture(*size))
        if columns and rows:
            assert columns * rows == len(region_tokens(box, grid))
        else:
            assert len(region_tokens(box, grid)) == 1


@pytest.mark.parametrize("seed", range(40))
def test_a_reference_box_exists_iff_a_search_finds_one(seed):
    rng = random.Random(seed)
    width, height = rng.randint(30, 60), rng.randint(30, 60)
    w, h = rng.randint(5, width - 1), rng.randint(5, height - 1)
    box = Box(rng.randint(0, width - w), rng.randint(0, height - h), w, h)
    best = min(box.iou(Box(x, y, w, h)) for x in range(width - w + 1) for y in range(height - h + 1))
    for limit in (0.0, 0.05, 0.2, 0.5):
        if abs(best - limit) > 1e-9:
            assert feasible(box, picture(width, height), limit) == (best < limit)


def test_squares_beyond_the_bound_never_have_a_reference():
    """Relative side .591 = area .35 is the most, in the corner: o = (2a - 1) / a per axis, o^2 <= .0952."""
    sides = [
        a for a in np.arange(0.4, 0.7, 0.001) if feasible(Box(0, 0, 1000 * a, 1000 * a), picture(1000, 1000), 0.05)
    ]
    assert max(sides) == pytest.approx(0.591, abs=1e-3)


def test_the_box_around_all():
    assert union((Box(10, 20, 5, 5), Box(2, 30, 4, 10))) == Box(2, 20, 13, 20)
