"""What kind, and which is larger. Instances say nothing of colour, material or state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

from mmcredit.data.coco.counting import box_of, larger
from mmcredit.data.coco.names import KINDS
from mmcredit.data.coco.question import Context, Draft, Task
from mmcredit.data.coco.scene import Scene, Thing
from mmcredit.types import Box


@dataclass(frozen=True)
class Type(Task):
    """What kind of animal is shown at [x=10,y=20,w=40,h=30]? Nothing else of the supercategory touches the box, and the
    supercategory has other categories."""

    name: ClassVar[str] = "type"
    family: ClassVar[str] = "attribute"

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        kinds = [category.kind for category in context.instances.categories.values()]
        for one in scene.things:
            kind = one.category.kind
            if not kind or kinds.count(kind) < 2:
                continue
            others = [o for o in scene.things if o.category.kind == kind and o.category != one.category]
            if fault := one.fault or scene.faults[one.category.name]:
                yield fault
            elif any(other.box is None for other in others):
                yield "unplaced"
            elif any(_touch(box_of(one), box_of(other)) for other in others):
                yield "ambiguous"
            else:
                question = f"What kind of {KINDS.get(kind, kind)} is shown at {box_text(box_of(one))}?"
                yield Draft(str(one.id), "kind_at_box", question, one.category.name, "word", (one,))


@dataclass(frozen=True)
class Size(Task):
    """Which is larger in the image, the dog or the car?

    Args:
        ratio: smallest ratio of the mask areas.
    """

    name: ClassVar[str] = "size"
    family: ClassVar[str] = "attribute"
    ratio: float = 1.5

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        for pair in combinations(scene.singles, 2):
            key = f"{pair[0].category.id}-{pair[1].category.id}"
            a, b = pair if context.draw(scene, self.name, key) % 2 else pair[::-1]
            if not (sign := larger(a, b, self.ratio)):
                yield "ratio"
                continue
            names = a.category.name, b.category.name
            question = f"Which is larger in the image, the {names[0]} or the {names[1]}?"
            things: tuple[Thing, ...] = (a, b) if sign > 0 else (b, a)
            yield Draft(key, "which_is_larger", question, things[0].category.name, "word", things)


def box_text(box: Box) -> str:
    """A box in a question, whole pixels: [x=..,y=..,w=..,h=..]."""
    return f"[x={round(box.x)},y={round(box.y)},w={round(box.w)},h={round(box.h)}]"


def _touch(a: Box, b: Box) -> bool:
    return min(a.x + a.w, b.x + b.w) > max(a.x, b.x) and min(a.y + a.h, b.y + b.h) > max(a.y, b.y)
