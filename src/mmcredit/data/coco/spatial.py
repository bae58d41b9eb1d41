"""Where things are: left or right, above or below, the nearest neighbour, the order of three."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import ClassVar

from mmcredit.data.coco.counting import at, box_of
from mmcredit.data.coco.names import be
from mmcredit.data.coco.question import Context, Draft, Task
from mmcredit.data.coco.scene import Scene, Thing
from mmcredit.types import Box

AXES = (("left", "right"), ("above", "below"))  # the words for smaller and larger coordinates
SIDES = (("left of", 0, False), ("right of", 0, True), ("above", 1, False), ("below", 1, True))


@dataclass(frozen=True)
class Relation(Task):
    """Is the dog left or right of the car?

    Args:
        gap: smallest distance of the centres, share of the picture's side.
        max_iou: largest overlap of the boxes.
    """

    name: ClassVar[str] = "relation"
    family: ClassVar[str] = "spatial"
    gap: float = 0.15
    max_iou: float = 0.1

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        sides = scene.picture.width, scene.picture.height
        for pair in combinations(scene.singles, 2):
            for axis, (before, after) in enumerate(AXES):
                key = f"{before}-{pair[0].category.id}-{pair[1].category.id}"
                a, b = pair if context.draw(scene, self.name, key) % 2 else pair[::-1]
                difference = at(b)[axis] - at(a)[axis]
                if box_of(a).iou(box_of(b)) >= self.max_iou:
                    yield "overlap"
                elif abs(difference) < self.gap * sides[axis]:
                    yield "gap"
                else:
                    words = f"{before} or {after}{' of' if axis == 0 else ''}"
                    question = f"{be(a.category.name)} the {a.category.name} {words} the {b.category.name}?"
                    yield Draft(
                        key, f"{before}_or_{after}", question, before if difference > 0 else after, "word", (a, b)
                    )


@dataclass(frozen=True)
class Located(Task):
    """Which object is directly left of the car? The nearest in its lane, by a margin.

    A candidate shares at least half of the smaller extent across the direction, and its centre lies beyond the car's
    edge. Whatever else shares the lane, however little, crowds and faulty things included, must be farther away.

    Args:
        margin: to the runner-up, share of the picture's side.
    """

    name: ClassVar[str] = "located"
    family: ClassVar[str] = "spatial"
    margin: float = 0.05
    lane: float = 0.5

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        unplaced = any(one.box is None for one in scene.things)
        for a in scene.singles:
            for words, axis, forward in SIDES:
                yield "unplaced" if unplaced else self._one(scene, a, words, axis, forward)

    def _one(self, scene: Scene, a: Thing, words: str, axis: int, forward: bool) -> Draft | str:
        others = [one for one in scene.things if one is not a and one.box is not None]
        far = {one.id: _gap(box_of(a), box_of(one), axis, forward) for one in others}
        beside = [one for one in others if _beyond(at(a)[axis], at(one)[axis], forward)]
        rivals = [one for one in beside if _shared(box_of(a), box_of(one), 1 - axis) > 0]
        edge = _span(box_of(a), axis)[forward]
        fit = [
            one for one in rivals
            if _shared(box_of(a), box_of(one), 1 - axis) >= self.lane and _beyond(edge, at(one)[axis], forward)
        ]  # fmt: skip
        if not fit:
            return "nothing_there"
        nearest = min(fit, key=lambda one: (far[one.id], str(one.id)))
        if fault := nearest.fault or scene.faults[nearest.category.name]:
            return fault
        least = far[nearest.id] + self.margin * (scene.picture.width, scene.picture.height)[axis]
        if any(far[one.id] < least for one in rivals if one is not nearest):
            return "ambiguous"
        question = f"Which object is directly {words} the {a.category.name}?"
        key = f"{words.replace(' ', '_')}-{a.category.id}"
        return Draft(key, f"directly_{words.replace(' ', '_')}", question, nearest.category.name, "word", (nearest, a))


@dataclass(frozen=True)
class Chain(Task):
    """In which order do the dog, the car and the cat appear from left to right?

    Args:
        gap: smallest distance of the centres of any two, share of the picture's side.
    """

    name: ClassVar[str] = "spatial_chain"
    family: ClassVar[str] = "spatial"
    gap: float = 0.15

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        sides = scene.picture.width, scene.picture.height
        for trio in combinations(scene.singles, 3):
            for axis, ends in enumerate((("left", "right"), ("top", "bottom"))):
                ranked = sorted(trio, key=lambda one: at(one)[axis])
                gaps = [at(b)[axis] - at(a)[axis] for a, b in pairwise(ranked)]
                if min(gaps) < self.gap * sides[axis]:
                    yield "gap"
                    continue
                key = "-".join([ends[0], *(str(one.category.id) for one in trio)])
                rng = context.rng(scene, self.name, key)
                step = rng.choice((1, -1))
                ranked, (start, end) = ranked[::step], ends[::step]
                a, b, c = (f"the {one.category.name}" for one in rng.sample(trio, 3))
                question = f"In which order do {a}, {b} and {c} appear from {start} to {end}?"
                answer = ", ".join(one.category.name for one in ranked)
                yield Draft(key, f"order_from_{start}", question, answer, "list", tuple(ranked))


def _span(box: Box, axis: int) -> tuple[float, float]:
    return (box.x, box.x + box.w) if axis == 0 else (box.y, box.y + box.h)


def _gap(a: Box, b: Box, axis: int, forward: bool) -> float:
    """From the edge of a to the next edge of b in that direction; below 0 where they overlap."""
    (start, end), (first, last) = _span(a, axis), _span(b, axis)
    return first - end if forward else start - last


def _shared(a: Box, b: Box, axis: int) -> float:
    """Common extent as a share of the smaller one; 0 where an extent is 0."""
    (start, end), (first, last) = _span(a, axis), _span(b, axis)
    smaller = min(end - start, last - first)
    return max(min(end, last) - max(start, first), 0.0) / smaller if smaller else 0.0


def _beyond(edge: float, centre: float, forward: bool) -> bool:
    return centre > edge if forward else centre < edge
