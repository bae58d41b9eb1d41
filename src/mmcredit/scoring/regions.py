"""Boxes on the image to merged image tokens, evidence and reference regions. METHODS section 4, steps 2, 4, 5."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from mmcredit.functional import stable_rng
from mmcredit.types import Box, Sample, UserError

SOURCES = ("proposal", "target", "argument", "bbox", "centred")  # of the evidence box, by priority


@dataclass(frozen=True, slots=True)
class Grid:
    """How one picture is cut: H x W patches over width x height pixels, merged m x m to one token."""

    rows: int  # patches
    columns: int
    merge: int
    width: int  # pixels of the original picture
    height: int

    @property
    def merged(self) -> tuple[int, int]:
        """Rows and columns of merged tokens."""
        return self.rows // self.merge, self.columns // self.merge

    @property
    def tokens(self) -> int:
        return self.merged[0] * self.merged[1]


def grid_of(sample: Sample, grid_thw: Tensor, merge: int) -> Grid:
    """The grid of the sample's first picture, on which all boxes are given.

    Raises:
        UserError: the picture is cut into tiles.
    """
    refuse_tiles(int(grid_thw[0, 0]))
    width, height = sample.images[0].size
    return Grid(int(grid_thw[0, 1]), int(grid_thw[0, 2]), merge, width, height)


def refuse_tiles(tiles: int) -> None:
    """Places on a picture in several tiles, whose thumbnail shows every place once more, cannot be named yet.

    Raises:
        UserError: there are several tiles.
    """
    if tiles != 1:
        raise UserError(
            f"regions and cells of a picture in {tiles} tiles are not supported for internvl yet; "
            "+model.processor.max_patches=1 gives one tile a picture"
        )


def region_tokens(box: Box, grid: Grid) -> Tensor:
    """[N] int64, sorted: merged-token indices of the patches whose centre lies in the box (left and top edge included);
    the patch nearest to the box centre if there is none."""
    centre_x, centre_y = _centres(grid.columns, grid.width), _centres(grid.rows, grid.height)
    inside_x, inside_y = patches_inside(box, grid)
    x, y = box.centre
    if not len(inside_x) or not len(inside_y):
        inside_x = (centre_x - x).abs().argmin()[None]
        inside_y = (centre_y - y).abs().argmin()[None]
    merged = inside_y[:, None] // grid.merge * grid.merged[1] + inside_x[None] // grid.merge
    return merged.unique()


def patches_inside(box: Box, grid: Grid) -> tuple[Tensor, Tensor]:
    """[N] and [M] int64, columns and rows of the patches whose centre lies in the box; either may be empty."""
    centre_x, centre_y = _centres(grid.columns, grid.width), _centres(grid.rows, grid.height)
    inside_x = torch.where((centre_x >= box.x) & (centre_x < box.x + box.w))[0]
    inside_y = torch.where((centre_y >= box.y) & (centre_y < box.y + box.h))[0]
    return inside_x, inside_y


def _centres(patches: int, pixels: int) -> Tensor:
    return (torch.arange(patches, dtype=torch.float64) + 0.5) * pixels / patches


def ring_tokens(region: Tensor, grid: Grid, ring: int = 2) -> Tensor:
    """[N] int64, tokens at Chebyshev distance 1..ring from the region, outside it; all others if there are none."""
    rows, columns = grid.merged
    inside = torch.zeros(1, 1, rows, columns)
    inside.view(-1)[region] = 1
    grown = torch.nn.functional.max_pool2d(inside, 2 * ring + 1, stride=1, padding=ring)
    around = torch.where((grown - inside).view(-1) > 0)[0]
    return around if len(around) else torch.where(inside.view(-1) == 0)[0]


def evidence_box(sample: Sample) -> tuple[Box, str]:
    """The evidence box by priority proposal > target > argument > bbox > centred, and which of ``SOURCES`` it is."""
    given = (sample.proposal_bbox, sample.target_bbox, sample.argument_bbox, sample.bbox)
    for source, box in zip(SOURCES, given, strict=False):
        if box is not None:
            return box, source
    width, height = sample.images[0].size
    return Box(0.325 * width, 0.325 * height, 0.35 * width, 0.35 * height), SOURCES[-1]


def reference_box(sample: Sample, grid: Grid, index: int, max_iou: float = 0.05, tries: int = 24) -> Box | None:
    """Reference region ``index``: the evidence box's size at a random place that hardly meets it; None if no try finds
    one. Seeded by the sample id alone: the same for the whole group and every step."""
    return _placed(sample, grid, stable_rng(sample.id, index, "reference region"), max_iou, tries)


def _placed(sample: Sample, grid: Grid, rng: Random, max_iou: float, tries: int) -> Box | None:
    box, _ = evidence_box(sample)
    for _ in range(tries):
        x, y = rng.uniform(0, max(grid.width - box.w, 0)), rng.uniform(0, max(grid.height - box.h, 0))
        other = Box(x, y, box.w, box.h)
        if other.iou(box) <= max_iou:
            return other
    return None


def reference_tokens(sample: Sample, grid: Grid, index: int, max_iou: float = 0.05, tries: int = 24) -> Tensor:
    """[N] int64, tokens of ``reference_box``; where there is none, as many random tokens outside the evidence box as it
    has."""
    rng = stable_rng(sample.id, index, "reference region")
    if (other := _placed(sample, grid, rng, max_iou, tries)) is not None:
        return region_tokens(other, grid)
    evidence = region_tokens(evidence_box(sample)[0], grid)
    outside = sorted(set(range(grid.tokens)) - set(evidence.tolist()))
    return torch.tensor(sorted(rng.sample(outside, min(len(evidence), len(outside)))), dtype=torch.long)
