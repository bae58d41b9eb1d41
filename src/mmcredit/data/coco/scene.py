"""What is on one picture, and what keeps an object from being asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, TypeGuard

from mmcredit.data.coco.masks import Mask, parse
from mmcredit.types import Box

SAME = 0.9  # IoU from which two boxes of a category may be one object, annotated twice
LIMIT = 1e9  # pixels; numbers beyond are no coordinates


@dataclass(frozen=True, slots=True)
class Category:
    """A category; ids have gaps and are no indices."""

    id: int | str
    name: str
    kind: str  # supercategory, may be empty


@dataclass(frozen=True, slots=True)
class Picture:
    """An image entry."""

    id: int | str
    file_name: str
    width: int  # pixels of the file as stored: orientation tags are not applied
    height: int


@dataclass(frozen=True)
class Thing:
    """An annotation. A faulty one is not asked about, but it is there: it still counts against uniqueness."""

    id: int | str
    category: Category
    picture: Picture
    box: Box | None  # clipped to the picture; None where there are no four numbers
    area: float | None  # pixels of the mask
    crowd: bool
    fault: str | None  # crowd | box_malformed | sub_pixel
    segmentation: object

    @cached_property
    def mask(self) -> Mask | None:
        """The segmentation, None where it is none."""
        try:
            return parse(self.segmentation, self.picture.width, self.picture.height)
        except (ValueError, TypeError):
            return None


def thing(row: dict[str, Any], category: Category, picture: Picture) -> Thing:
    """The annotation of a checked row."""
    numbers, area, crowd = row.get("bbox"), row.get("area"), row.get("iscrowd") not in (0, None)
    box = None
    if isinstance(numbers, list) and len(numbers) == 4 and all(map(_number, numbers)):
        x, y, w, h = map(float, numbers)
        box = clipped(x, y, w, h, picture)
    fault = "crowd" if crowd else "box_malformed" if box is None else "sub_pixel" if min(box.w, box.h) < 1 else None
    size = float(area) if _number(area) and area > 0 else None
    return Thing(row["id"], category, picture, box, size, crowd, fault, row.get("segmentation"))


def clipped(x: float, y: float, w: float, h: float, picture: Picture) -> Box:
    """The part of a box on the picture; sides of 0 where there is none."""
    left, top = min(max(x, 0.0), picture.width), min(max(y, 0.0), picture.height)
    right, bottom = min(max(x + w, left), picture.width), min(max(y + h, top), picture.height)
    return Box(left, top, right - left, bottom - top)


def _number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -LIMIT < value < LIMIT


@dataclass(frozen=True)
class Scene:
    """The things on a picture, in the order of their ids."""

    picture: Picture
    things: tuple[Thing, ...]

    @cached_property
    def groups(self) -> list[tuple[Thing, ...]]:
        """Things by category, in the order of the names."""
        found: dict[str, list[Thing]] = {}
        for one in self.things:
            found.setdefault(one.category.name, []).append(one)
        return [tuple(found[name]) for name in sorted(found)]

    @cached_property
    def singles(self) -> list[Thing]:
        """Things without fault that are the only ones of their category: "the dog" is one of them."""
        return [group[0] for group in self.groups if len(group) == 1 and group[0].fault is None]

    @cached_property
    def faults(self) -> dict[str, str | None]:
        """Category name -> why its things cannot be counted or pointed at one by one."""
        return {group[0].category.name: trouble(group) for group in self.groups}


def trouble(group: Sequence[Thing]) -> str | None:
    """What is wrong with the things of a category: the worst fault of one, or near-duplicate boxes."""
    faults = {one.fault for one in group}
    for fault in ("crowd", "box_malformed", "sub_pixel"):
        if fault in faults:
            return fault
    boxes = [one.box for one in group if one.box]
    return "duplicate_boxes" if any(a.iou(b) > SAME for a, b in combinations(boxes, 2)) else None
