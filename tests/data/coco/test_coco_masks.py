"""Masks against pixel-by-pixel definitions, and against pycocotools where it is installed."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from tests.data.coco.corpus import runs

from mmcredit.data.coco.masks import Polygons, Runs, counts_of, packed, parse


def compressed(counts: list[int]) -> str:
    """Run lengths as the format's description has it: differences from the last but one, five bits a character."""
    text = ""
    for i, count in enumerate(counts):
        value = count - counts[i - 2] if i > 2 else count
        while True:
            low, value = value & 0x1F, value >> 5
            more = value != (-1 if low & 0x10 else 0)
            text += chr(48 + (low | 0x20 if more else low))
            if not more:
                break
    return text


def inside(points: list[tuple[float, float]], x: float, y: float) -> bool:
    """Even-odd, one ray at a time."""
    odd = False
    for (x0, y0), (x1, y1) in zip(points, [*points[1:], points[0]], strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            odd = not odd
    return odd


@pytest.mark.parametrize("seed", range(12))
def test_polygons_in_several_parts(seed):
    rng = random.Random(seed)
    parts = [[rng.uniform(-5, 45) for _ in range(2 * rng.randint(3, 9))] for _ in range(rng.randint(1, 3))]
    mask = parse(parts, 40, 30)
    expected = np.zeros((30, 40), bool)
    for part in parts:
        exact = np.asarray(part, np.float32).astype(float).reshape(-1, 2).tolist()
        expected |= [[inside(exact, x + 0.5, y + 0.5) for x in range(40)] for y in range(30)]
    assert (mask.window(0, 0, 40, 30) == expected).all()
    assert (mask.window(7, 5, 20, 11) == expected[5:16, 7:27]).all()


def test_a_square_is_its_pixels():
    mask = parse([[2, 1, 5, 1, 5, 4, 2, 4]], 8, 6).window(0, 0, 8, 6)
    assert mask.sum() == 9 and mask[1:4, 2:5].all()


def test_run_lengths_go_down_the_columns():
    """3 zeros, 2 ones, 1 zero on three rows of two columns."""
    mask = parse({"counts": [3, 2, 1], "size": [3, 2]}, 2, 3).window(0, 0, 2, 3)
    assert mask.tolist() == [[False, True], [False, True], [False, False]]


@pytest.mark.parametrize("seed", range(20))
def test_run_lengths_as_list_and_as_string(seed):
    rng = np.random.default_rng(seed)
    height, width = rng.integers(1, 60, 2).tolist()
    mask = rng.random((height, width)) < rng.random() ** 2
    counts = runs(mask)
    for given in (counts, compressed(counts)):
        found = parse({"counts": given, "size": [height, width]}, width, height)
        assert (found.window(0, 0, width, height) == mask).all()
        assert (found.window(width // 2, height // 3, 3, 2) == mask[height // 3 :, width // 2 :][:2, :3]).all()


def test_a_string_of_cocos_own_code():
    """As maskApi encodes a picture of 5 rows and 4 columns with the pixels of rows 1 to 3 in columns 1 and 2."""
    mask = np.zeros((5, 4), bool)
    mask[1:4, 1:3] = True
    assert runs(mask) == counts_of("63204") == [6, 3, 2, 3, 6] and compressed([6, 3, 2, 3, 6]) == "63204"


def test_against_pycocotools():
    official = pytest.importorskip("pycocotools.mask")
    rng, errors = np.random.default_rng(0), []
    for _ in range(60):
        height, width = rng.integers(1, 50, 2).tolist()
        mask = rng.random((height, width)) < rng.random()
        text = official.encode(np.asfortranarray(mask.astype(np.uint8)))["counts"].decode()
        assert compressed(runs(mask)) == text and counts_of(text) == runs(mask)
        angles = np.sort(rng.random(12)) * 2 * math.pi
        radii = 20 + 40 * rng.random(12)
        polygon = np.stack([100 + radii * np.cos(angles), 80 + radii * np.sin(angles)], 1).ravel().tolist()
        theirs = official.decode(official.merge(official.frPyObjects([polygon], 160, 200))).astype(bool)
        ours = parse([polygon], 200, 160).window(0, 0, 200, 160)
        errors.append((ours ^ theirs).sum() / theirs.sum())
    assert np.mean(errors) < 0.015, "they differ by half-covered pixels of the outline"


BAD = {
    "nothing": None, "empty": [], "two points": [[1, 1, 2, 2]], "odd": [[1, 1, 2, 2, 3, 3, 4]], "text": [["a"] * 6],
    "nan": [[1, 1, math.nan, 2, 3, 3]], "flat": [1, 1, 2, 2, 3, 3], "huge": [[1, 1, 1e300, 2, 3, 3]], "number": 7,
    "endless": [[1, 1, 10**400, 2, 3, 3]], "nothing inside": [None], "nested": [[[1, 1], [2, 2], [3, 3]]],
    "no size": {"counts": [12]}, "other size": {"counts": [12], "size": [4, 3]}, "no counts": {"size": [3, 4]},
    "short": {"counts": [3, 4], "size": [3, 4]}, "long": {"counts": [3, 40], "size": [3, 4]},
    "negative": {"counts": [20, -8], "size": [3, 4]}, "fraction": {"counts": [5.5, 6.5], "size": [3, 4]},
    "cut string": {"counts": "o", "size": [3, 4]}, "endless string": {"counts": "o" * 99, "size": [3, 4]},
    "foreign characters": {"counts": "\x00\xff", "size": [3, 4]}, "sizes as text": {"counts": [12], "size": "34"},
}  # fmt: skip


@pytest.mark.parametrize("segmentation", BAD.values(), ids=BAD)
def test_what_is_no_mask(segmentation):
    for given in (segmentation, packed(segmentation)):
        with pytest.raises(ValueError):
            parse(given, 4, 3)


def test_run_lengths_of_a_picture_that_is_too_large():
    with pytest.raises(ValueError, match="too many pixels"):
        parse({"counts": [10**12], "size": [10**6, 10**6]}, 10**6, 10**6)


def test_packing_keeps_polygons():
    parts = [[1.5, 2, 3, 4, 5, 6.25], [0, 0, 9, 0, 9, 9]]
    found = parse(packed(parts), 10, 10)
    assert isinstance(found, Polygons) and [list(part) for part in found.parts] == parts
    assert isinstance(parse({"counts": [100], "size": [10, 10]}, 10, 10), Runs)
