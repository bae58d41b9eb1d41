"""Boxes to merged tokens, rings and reference regions, against hand-computed indices and literal loops."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch
from PIL import Image

from mmcredit.scoring import regions
from mmcredit.scoring.regions import Grid, evidence_box, grid_of, reference_tokens, region_tokens, ring_tokens
from mmcredit.types import Box, Sample

SQUARE = Grid(8, 8, 2, 128, 128)  # patches of 16 pixels, 4x4 tokens of 32 pixels


def sample_of(width: int = 128, height: int = 128, **boxes: Box) -> Sample:
    return Sample("s", (Image.new("RGB", (width, height)),), "q", "a", **boxes)


def literal_region(box: Box, grid: Grid) -> list[int]:
    """METHODS section 4, step 2, cell by cell."""
    cell_w, cell_h = grid.width / grid.columns, grid.height / grid.rows
    inside, distances = set(), []
    for gy in range(grid.rows):
        for gx in range(grid.columns):
            x, y = (gx + 0.5) * cell_w, (gy + 0.5) * cell_h
            token = (gy // grid.merge) * (grid.columns // grid.merge) + gx // grid.merge
            distances.append((math.dist((x, y), (box.x + box.w / 2, box.y + box.h / 2)), token))
            if box.x <= x < box.x + box.w and box.y <= y < box.y + box.h:
                inside.add(token)
    return sorted(inside) or [min(distances)[1]]


def literal_ring(region: list[int], grid: Grid, ring: int) -> list[int]:
    rows, columns = grid.rows // grid.merge, grid.columns // grid.merge
    outside = [t for t in range(rows * columns) if t not in region]
    around = [
        t
        for t in outside
        if any(max(abs(t // columns - r // columns), abs(t % columns - r % columns)) <= ring for r in region)
    ]
    return around or outside


def random_case(rng: random.Random) -> tuple[Box, Grid]:
    merge = rng.choice([1, 2, 3])
    rows, columns = (merge * rng.randint(1, 7) for _ in range(2))
    width, height = rng.randint(8, 500), rng.randint(8, 500)
    w, h = width * rng.uniform(0.01, 1), height * rng.uniform(0.01, 1)
    return Box(rng.uniform(0, width - w), rng.uniform(0, height - h), w, h), Grid(rows, columns, merge, width, height)


@pytest.mark.parametrize(
    ("box", "grid", "tokens"),
    [
        pytest.param(Box(16, 32, 16, 16), SQUARE, [4], id="exactly one patch (column 1, row 2)"),
        pytest.param(Box(24, 40, 1, 1), SQUARE, [4], id="left and top edge on a centre"),
        pytest.param(Box(8, 8, 32, 32), SQUARE, [0], id="right and bottom edge on a centre"),
        pytest.param(Box(8, 8, 33, 16.5), SQUARE, [0, 1], id="just over a centre"),
        pytest.param(Box(32, 64, 32, 32), SQUARE, [9], id="exactly one token"),
        pytest.param(Box(30, 62, 36, 36), SQUARE, [9], id="its neighbours' centres missed"),
        pytest.param(Box(20, 50, 60, 30), SQUARE, [4, 5, 6, 8, 9, 10], id="over six tokens"),
        pytest.param(Box(0, 0, 128, 128), SQUARE, list(range(16)), id="whole picture"),
        pytest.param(Box(97, 1, 4, 4), SQUARE, [3], id="smaller than a patch"),
        pytest.param(Box(1, 50, 126, 3), SQUARE, [5], id="thin: one patch, nearest to the box centre"),
        pytest.param(Box(124, 124, 4, 4), SQUARE, [15], id="in the last corner"),
        pytest.param(Box(64, 0, 64, 32), Grid(4, 12, 2, 192, 64), [2, 3], id="wide picture"),
        pytest.param(Box(0, 160, 32, 32), Grid(12, 4, 2, 64, 192), [10], id="tall picture"),
        pytest.param(Box(100, 100, 100, 100), Grid(8, 8, 2, 400, 200), [9, 13], id="patches of 50x25 pixels"),
        pytest.param(Box(0, 0, 20, 20), Grid(8, 8, 2, 40, 40), [0, 1, 4, 5], id="patches of 5 pixels"),
        pytest.param(Box(3, 3, 3, 3), Grid(3, 3, 1, 9, 9), [4], id="no merging"),
    ],
)
def test_region_by_hand(box: Box, grid: Grid, tokens: list[int]) -> None:
    assert region_tokens(box, grid).tolist() == tokens


def test_region_against_loop() -> None:
    rng = random.Random(0)
    fallbacks = 0
    for _ in range(200):
        box, grid = random_case(rng)
        assert region_tokens(box, grid).tolist() == literal_region(box, grid), (box, grid)
        fallbacks += box.w < grid.width / grid.columns / 2 or box.h < grid.height / grid.rows / 2
    assert fallbacks > 5, "boxes smaller than a patch must occur"


@pytest.mark.parametrize(
    ("region", "ring", "tokens"),
    [
        ([5], 1, [0, 1, 2, 4, 6, 8, 9, 10]),
        ([0], 1, [1, 4, 5]),
        ([0], 2, [1, 2, 4, 5, 6, 8, 9, 10]),
        ([3], 1, [2, 6, 7]),
        ([0, 15], 1, [1, 4, 5, 10, 11, 14]),
        ([0, 1, 2, 3], 1, [4, 5, 6, 7]),
        ([5], 0, [t for t in range(16) if t != 5]),
        (list(range(16)), 2, []),
    ],
)
def test_ring_by_hand(region: list[int], ring: int, tokens: list[int]) -> None:
    assert ring_tokens(torch.tensor(region), SQUARE, ring).tolist() == tokens


def test_ring_against_loop() -> None:
    rng = random.Random(1)
    for _ in range(200):
        _, grid = random_case(rng)
        region = sorted(rng.sample(range(grid.tokens), rng.randint(1, grid.tokens)))
        ring = rng.randint(0, 3)
        found = ring_tokens(torch.tensor(region), grid, ring).tolist()
        assert found == literal_ring(region, grid, ring), (region, grid, ring)
        assert not set(found) & set(region)


def test_grid_of_the_first_picture() -> None:
    sample = Sample("s", (Image.new("RGB", (300, 200)), Image.new("RGB", (10, 10))), "q", "a")
    grid = grid_of(sample, torch.tensor([[1, 4, 6], [1, 2, 2]]), 2)
    assert grid == Grid(rows=4, columns=6, merge=2, width=300, height=200)
    assert (grid.merged, grid.tokens) == ((2, 3), 6)


def test_evidence_priority() -> None:
    named = {name: Box(i, 0, 5, 5) for i, name in enumerate(["proposal_bbox", "target_bbox", "argument_bbox", "bbox"])}
    sample = sample_of(**named)
    for name, box in named.items():
        assert evidence_box(sample) == (box, name.removesuffix("_bbox"))
        sample = replace(sample, **{name: None})
    assert evidence_box(sample)[1] == "centred"


def test_evidence_fallback_is_centred() -> None:
    box, fallback = evidence_box(sample_of(200, 100))
    assert fallback == "centred"
    assert (box.w, box.h) == pytest.approx((70, 35))
    assert box.centre == pytest.approx((100, 50))


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[Box]:
    """The boxes that are turned into tokens, in order."""
    seen: list[Box] = []

    def watched(box: Box, grid: Grid) -> torch.Tensor:
        seen.append(box)
        return region_tokens(box, grid)

    monkeypatch.setattr(regions, "region_tokens", watched)
    return seen


@pytest.mark.parametrize("box", [Box(10, 10, 20, 30), Box(90, 50, 38, 38), Box(0, 0, 4, 4), Box(40, 40, 30, 20)])
def test_reference_has_the_size_of_the_evidence_and_hardly_meets_it(places: list[Box], box: Box) -> None:
    for i in range(60):
        sample = replace(sample_of(bbox=box), id=f"sample {i}")
        tokens = reference_tokens(sample, SQUARE, index=i % 3)
        other = places.pop()
        assert (other.w, other.h) == (box.w, box.h)
        assert other.x >= 0 and other.y >= 0 and other.x + other.w <= 128 and other.y + other.h <= 128
        overlap_w = max(0, min(other.x + other.w, box.x + box.w) - max(other.x, box.x))
        overlap_h = max(0, min(other.y + other.h, box.y + box.h) - max(other.y, box.y))
        overlap = overlap_w * overlap_h
        assert overlap / (2 * box.w * box.h - overlap) <= 0.05
        assert tokens.tolist() == literal_region(other, SQUARE)


def test_reference_places_cover_the_picture(places: list[Box]) -> None:
    """Uniform: about a quarter of the places in each quarter (4 sigma), the evidence being tiny and central."""
    for i in range(400):
        reference_tokens(replace(sample_of(bbox=Box(62, 62, 4, 4)), id=str(i)), SQUARE, 0)
    for right in (False, True):
        for down in (False, True):
            found = sum((b.centre[0] > 64) == right and (b.centre[1] > 64) == down for b in places)
            assert abs(found - 100) <= 4 * (400 * 0.25 * 0.75) ** 0.5


def test_reference_depends_on_sample_id_and_index_alone() -> None:
    fine = Grid(32, 32, 2, 128, 128)
    sample = sample_of(bbox=Box(10, 10, 20, 20))
    first = [reference_tokens(sample, fine, i).tolist() for i in range(3)]
    random.seed(1)
    torch.manual_seed(1)
    reworded = replace(sample, question="another?", answer="b")
    assert [reference_tokens(reworded, fine, i).tolist() for i in range(3)] == first
    assert len({tuple(tokens) for tokens in first}) == 3
    assert reference_tokens(replace(sample, id="t"), fine, 0).tolist() != first[0]


@pytest.mark.parametrize(
    ("side", "grid", "size"),
    [(0.7, SQUARE, 7), (0.7, Grid(16, 16, 2, 128, 128), 28), (1.0, SQUARE, 0)],
    ids=["few tokens left", "as many as the evidence where possible", "nothing left"],
)
def test_reference_falls_back_to_tokens_outside_the_evidence(side: float, grid: Grid, size: int) -> None:
    """A box of .7 of each side has no place with IoU <= .05; merged 4x4 its centres cover 3x3, merged 8x8 6x6."""
    sample = sample_of(bbox=Box(0, 0, side * 128, side * 128))
    evidence = set(literal_region(sample.bbox, grid))
    found = [reference_tokens(sample, grid, i).tolist() for i in range(3)]
    for tokens in found:
        assert tokens == sorted(set(tokens)) and not set(tokens) & evidence
        assert len(tokens) == size == min(len(evidence), grid.tokens - len(evidence))
    assert found == [reference_tokens(sample, grid, i).tolist() for i in range(3)]


def test_fallback_takes_as_many_tokens_as_the_evidence_has() -> None:
    """Half of each side in the middle: 4x4 of 8x8 tokens, and a box in a corner still meets it with IoU .14."""
    grid = Grid(16, 16, 2, 128, 128)
    sample = sample_of(bbox=Box(32, 32, 64, 64))
    found = [reference_tokens(sample, grid, i).tolist() for i in range(4)]
    assert [len(tokens) for tokens in found] == [16] * 4 == [len(literal_region(sample.bbox, grid))] * 4
    assert len({tuple(tokens) for tokens in found}) == 4
