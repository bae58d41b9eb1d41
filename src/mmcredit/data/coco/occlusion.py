"""What covers what, from overlapping masks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mmcredit.data.coco.counting import box_of
from mmcredit.data.coco.question import Context, Draft, Task
from mmcredit.data.coco.scene import Scene, Thing


@dataclass(frozen=True)
class Occlusion(Task):
    """What covers part of the sofa?

    Masks show what is visible. Where two overlap, one outline was drawn across the other object: the one that lies
    mostly in the overlap must be in front, or little of it could be seen and drawn. So B covers part of A iff it is the
    only thing that overlaps A, most of B's mask is in the overlap, and a fair part of A's.

    Args:
        least, most: share of A's mask that is covered.
        inside: smallest share of B's mask that lies on A.
        noise: overlaps below this share of A's mask are slips of the outline.
    """

    name: ClassVar[str] = "occlusion"
    family: ClassVar[str] = "spatial"
    least: float = 0.05
    most: float = 0.5
    inside: float = 0.5
    noise: float = 0.01

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        for a in scene.singles:
            touching = [one for one in scene.things if one is not a and _meet(a, one)]
            if touching:
                yield self._one(scene, a, touching)

    def _one(self, scene: Scene, a: Thing, touching: list[Thing]) -> Draft | str:
        if a.area is None or a.mask is None or any(one.mask is None for one in touching):
            return "no_mask"
        shares = {one.id: overlap(a, one) / a.area for one in touching}
        over = [one for one in touching if shares[one.id] > self.noise]
        if len(over) != 1:
            return "ambiguous" if over else "nothing_there"
        (b,) = over
        if fault := b.fault or scene.faults[b.category.name]:
            return fault
        if b.area is None or not self.least <= shares[b.id] <= self.most:
            return "overlap"
        if shares[b.id] * a.area < self.inside * b.area:
            return "overlap"
        question = f"What covers part of the {a.category.name}?"
        return Draft(str(a.category.id), "covers_part_of", question, b.category.name, "word", (b, a))


def overlap(a: Thing, b: Thing) -> int:
    """Pixels of both masks."""
    left, right, top, bottom = _window(a, b)
    if left >= right or top >= bottom:
        return 0
    assert a.mask is not None and b.mask is not None
    window = left, top, right - left, bottom - top
    return int((a.mask.window(*window) & b.mask.window(*window)).sum())


def _meet(a: Thing, b: Thing) -> bool:
    if b.box is None:
        return False
    left, right, top, bottom = _window(a, b)
    return left < right and top < bottom


def _window(a: Thing, b: Thing) -> tuple[int, int, int, int]:
    """Left, right, top, bottom of the pixels that both boxes touch."""
    p, q = box_of(a), box_of(b)
    left, right = max(p.x, q.x), min(p.x + p.w, q.x + q.w)
    top, bottom = max(p.y, q.y), min(p.y + p.h, q.y + q.h)
    return math.floor(left), math.ceil(right), math.floor(top), math.ceil(bottom)
