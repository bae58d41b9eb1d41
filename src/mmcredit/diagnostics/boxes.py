"""Other evidence boxes and pictures for a sample: what the audit of CED puts in the place of the true ones.

Evidence-RL, https://arxiv.org/abs/2608.08021v2, section 4.3.3 and appendices A.4, A.7. Everything is drawn by a hash of
the sample id; None where a sample has no such box.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from PIL import Image
from torch import Tensor

from mmcredit.functional import stable_rng, stable_seed
from mmcredit.scoring.edits import Picture
from mmcredit.scoring.regions import evidence_box, grid_of, region_tokens
from mmcredit.types import Box, Sample

Change = Callable[[Sample], Sample | None]
TRIES = 1000


def with_box(sample: Sample, box: Box | None) -> Sample | None:
    """The sample with another evidence box."""
    return None if box is None else replace(sample, proposal_bbox=box)


def elsewhere(sample: Sample, max_iou: float = 0.05) -> Sample | None:
    """A random box of the same size, away from the true one."""
    box, (width, height) = evidence_box(sample)[0], sample.images[0].size
    rng = stable_rng(sample.id, "random box")
    for _ in range(TRIES):
        x, y = rng.uniform(0, max(width - box.w, 0)), rng.uniform(0, max(height - box.h, 0))
        if (other := Box(x, y, box.w, box.h)).iou(box) <= max_iou:
            return with_box(sample, other)
    return None


@dataclass(frozen=True)
class Shuffled:
    """The evidence box of another sample, scaled to this picture; the same partner every time."""

    samples: Sequence[Sample]

    def __call__(self, sample: Sample) -> Sample | None:
        own = next(i for i, other in enumerate(self.samples) if other.id == sample.id)
        if len(self.samples) < 2:
            return None
        other = self.samples[partner(own, len(self.samples))]
        if not other.images:
            return None
        box, (width, height), (w, h) = evidence_box(other)[0], sample.images[0].size, other.images[0].size
        return with_box(sample, Box(box.x * width / w, box.y * height / h, box.w * width / w, box.h * height / h))


def partner(place: int, count: int) -> int:
    """Another place, by a random cycle over all of them."""
    order = stable_rng(count, "shuffled").sample(range(count), count)
    return order[(order.index(place) + 1) % count]


def blindfold(sample: Sample) -> Sample | None:
    """An empty white picture of the same size."""
    return replace(sample, images=tuple(Image.new("RGB", image.size, "white") for image in sample.images))


@dataclass(frozen=True)
class Scaled:
    """The box grown or shrunk about its centre, cut off at the border."""

    factor: float

    def __call__(self, sample: Sample) -> Sample | None:
        box = evidence_box(sample)[0]
        (x, y), w, h = box.centre, box.w * self.factor, box.h * self.factor
        return with_box(sample, clipped(Box(x - w / 2, y - h / 2, w, h), sample))


@dataclass(frozen=True)
class Shifted:
    """The box moved by a share of the picture's shorter side, in a random direction that keeps it inside."""

    share: float

    def __call__(self, sample: Sample) -> Sample | None:
        box, (width, height) = evidence_box(sample)[0], sample.images[0].size
        rng, step = stable_rng(sample.id, "shift"), self.share * min(width, height)
        for _ in range(TRIES):
            angle = rng.uniform(0, 2 * math.pi)
            moved = Box(box.x + step * math.cos(angle), box.y + step * math.sin(angle), box.w, box.h)
            if inside(moved, sample):
                return with_box(sample, moved)
        return None


@dataclass(frozen=True)
class Overlapping:
    """The box moved until its IoU with the true one lies in (low, high); always in the same random direction, along
    which there is room for it to leave the true box altogether."""

    low: float
    high: float

    def __call__(self, sample: Sample) -> Sample | None:
        box, rng = evidence_box(sample)[0], stable_rng(sample.id, "overlap")
        for _ in range(TRIES):
            angle = rng.uniform(0, 2 * math.pi)
            if inside(_moved(box, angle, 1.0), sample):
                break
        else:
            return None
        wanted = stable_rng(sample.id, self.low, self.high, "overlap").uniform(self.low, self.high)
        near, far = 0.0, 1.0
        for _ in range(40):  # IoU falls along the way
            middle = (near + far) / 2
            near, far = (middle, far) if _moved(box, angle, middle).iou(box) > wanted else (near, middle)
        return with_box(sample, _moved(box, angle, near))


def _moved(box: Box, angle: float, share: float) -> Box:
    """The box moved by a share of the way on which it leaves its place."""
    x, y = math.cos(angle), math.sin(angle)
    way = share * min(box.w / max(abs(x), 1e-9), box.h / max(abs(y), 1e-9))
    return Box(box.x + way * x, box.y + way * y, box.w, box.h)


def inside(box: Box, sample: Sample) -> bool:
    """Whether a box lies on the picture."""
    width, height = sample.images[0].size
    return box.x >= 0 and box.y >= 0 and box.x + box.w <= width and box.y + box.h <= height


def clipped(box: Box, sample: Sample) -> Box:
    """The part of a box on the picture."""
    width, height = sample.images[0].size
    left, top = max(box.x, 0.0), max(box.y, 0.0)
    return Box(left, top, min(box.x + box.w, width) - left, min(box.y + box.h, height) - top)


@dataclass(frozen=True, slots=True)
class Scattered:
    """As many random tokens of the whole picture as the evidence box has: a global mask (``Region``)."""

    index: int

    def tokens(self, picture: Picture) -> Tensor:
        """Indices into the merged tokens of the first picture."""
        grid = grid_of(picture.sample, picture.grid_thw, picture.merge)
        size = len(region_tokens(evidence_box(picture.sample)[0], grid))
        generator = torch.Generator().manual_seed(stable_seed(picture.sample.id, self.index, "scattered"))
        return torch.randperm(grid.tokens, generator=generator)[:size].sort().values
