"""Counting: all of a category, or all but some."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mmcredit.data.coco.names import plural
from mmcredit.data.coco.question import Context, Draft, Task
from mmcredit.data.coco.scene import Scene, Thing
from mmcredit.types import Box


@dataclass(frozen=True)
class Count(Task):
    """How many dogs are in the image?"""

    name: ClassVar[str] = "count"
    family: ClassVar[str] = "counting"
    most: int = 10

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        for group in scene.groups:
            category = group[0].category
            if fault := scene.faults[category.name] or ("count_range" if len(group) > self.most else None):
                yield fault
                continue
            question = f"How many {plural(category.name)} are in the image?"
            yield Draft(str(category.id), "count", question, str(len(group)), "integer", by_size(group))


@dataclass(frozen=True)
class CountExclusion(Task):
    """How many dogs are not left of the car? Of two or more, some are and some are not.

    Args:
        gap: smallest distance of centres, share of the picture's side.
        ratio: smallest ratio of mask areas.
    """

    name: ClassVar[str] = "count_exclusion"
    family: ClassVar[str] = "counting"
    most: int = 10
    gap: float = 0.05
    ratio: float = 1.5

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        for group in scene.groups:
            name = group[0].category.name
            if len(group) < 2:
                continue
            if fault := scene.faults[name] or ("count_range" if len(group) > self.most else None):
                yield fault
                continue
            for anchor in scene.singles:
                yield from (self._one(group, anchor, words, by) for words, by in self._relations(scene))

    def _one(self, group: Sequence[Thing], anchor: Thing, words: str, by: Callable[..., float]) -> Draft | str:
        signs = [by(one, anchor) for one in group]
        if not all(signs):
            return "ambiguous"
        counted = [one for one, sign in zip(group, signs, strict=True) if sign < 0]
        if not 0 < len(counted) < len(group):
            return "excludes_all_or_none"
        excluded = [one for one in group if one not in counted]
        category = group[0].category
        key = f"{category.id}-{words.replace(' ', '_')}-{anchor.category.id}"
        question = f"How many {plural(category.name)} are not {words} the {anchor.category.name}?"
        things = (*by_size(counted), *by_size(excluded), anchor)
        return Draft(key, f"count_not_{words.replace(' ', '_')}", question, str(len(counted)), "integer", things)

    def _relations(self, scene: Scene) -> Iterator[tuple[str, Callable[[Thing, Thing], float]]]:
        """Words, and a function: above 0 where they hold, below 0 where they do not, 0 where it is not clear."""
        width, height = self.gap * scene.picture.width, self.gap * scene.picture.height
        yield "left of", lambda a, b: clear(at(b)[0] - at(a)[0], width)
        yield "right of", lambda a, b: clear(at(a)[0] - at(b)[0], width)
        yield "above", lambda a, b: clear(at(b)[1] - at(a)[1], height)
        yield "below", lambda a, b: clear(at(a)[1] - at(b)[1], height)
        yield "smaller than", lambda a, b: larger(b, a, self.ratio)
        yield "larger than", lambda a, b: larger(a, b, self.ratio)


def by_size(things: Sequence[Thing]) -> tuple[Thing, ...]:
    """The largest box first."""
    return tuple(sorted(things, key=lambda one: (-box_of(one).area, str(one.id))))


def box_of(thing: Thing) -> Box:
    """The box of a thing that has one."""
    assert thing.box is not None
    return thing.box


def at(thing: Thing) -> tuple[float, float]:
    """The centre of a thing's box."""
    return box_of(thing).centre


def clear(difference: float, least: float) -> float:
    """The difference, 0 if it is smaller than ``least``."""
    return difference if abs(difference) >= least else 0.0


def larger(a: Thing, b: Thing, ratio: float) -> float:
    """1 if the mask of a is larger by that ratio, -1 if b's is, 0 if neither."""
    if a.area is None or b.area is None:
        return 0.0
    return 1.0 if a.area >= ratio * b.area else -1.0 if b.area >= ratio * a.area else 0.0
