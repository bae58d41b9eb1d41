"""Answers by a plain reading of the raw annotations and of the question's text; shares no code with the constructor."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

Row = dict[str, Any]
SINGULAR = {
    "people": "person", "dogs": "dog", "cats": "cat", "cars": "car", "buses": "bus", "knives": "knife", "cups": "cup",
    "sheep": "sheep", "traffic lights": "traffic light", "scissors": "scissors",
}  # fmt: skip
N = "(" + "|".join(sorted(set(SINGULAR) | set(SINGULAR.values()))) + ")"
KINDS = "(animal|vehicle|kitchen item|outdoor object|indoor object)"
WAYS = "(left of|right of|above|below|smaller than|larger than)"
TEMPLATES = {
    "count": rf"How many {N} are in the image\?",
    "count_exclusion": rf"How many {N} are not {WAYS} the {N}\?",
    "relation": rf"(?:Is|Are) the {N} (left or right of|above or below) the {N}\?",
    "located": rf"Which object is directly {WAYS} the {N}\?",
    "spatial_chain": rf"In which order do the {N}, the {N} and the {N} appear from (left to right|right to left|top to "
    r"bottom|bottom to top)\?",
    "occlusion": rf"What covers part of the {N}\?",
    "type": rf"What kind of {KINDS} is shown at \[x=(\d+),y=(\d+),w=(\d+),h=(\d+)\]\?",
    "size": rf"Which is larger in the image, the {N} or the {N}\?",
    "existence": rf"(?:Is|Are) there (?:an?|any) {N} in the image\?",
    "colour": rf"What is the dominant colour of the {N}\?",
}


class Oracle:
    """Knows the raw file."""

    def __init__(self, data: Row) -> None:
        self.names = {c["id"]: c["name"] for c in data["categories"]}
        self.sizes = {i["id"]: (i["width"], i["height"]) for i in data["images"]}
        self.of: dict[int, list[Row]] = {}
        for row in data["annotations"]:
            self.of.setdefault(row["image_id"], []).append(row)

    def answer(self, row: Row) -> str:
        """The answer to a written question."""
        task, things = row["task_type"], self.of[row["meta"]["image_id"]]
        found = re.fullmatch(TEMPLATES[task], row["question"])
        assert found, row["question"]
        return getattr(self, task)(things, *found.groups())

    def named(self, things: list[Row], name: str) -> list[Row]:
        return [t for t in things if self.names[t["category_id"]] == name]

    def the(self, things: list[Row], name: str) -> Row:
        (one,) = self.named(things, name)
        assert not one["iscrowd"]
        return one

    def count(self, things: list[Row], many: str) -> str:
        found = self.named(things, SINGULAR[many])
        assert not any(t["iscrowd"] for t in found)
        return str(len(found))

    def count_exclusion(self, things: list[Row], many: str, way: str, name: str) -> str:
        anchor = self.the(things, name)
        found = self.named(things, SINGULAR[many])
        holds = [self.holds(t, way, anchor) for t in found]
        return str(holds.count(False))

    def holds(self, t: Row, way: str, anchor: Row) -> bool:
        (x, y), (ax, ay) = centre(t), centre(anchor)
        area, other = painted(t).sum(), painted(anchor).sum()
        return {
            "left of": x < ax, "right of": x > ax, "above": y < ay, "below": y > ay,
            "smaller than": area < other, "larger than": area > other,
        }[way]  # fmt: skip

    def relation(self, things: list[Row], name: str, words: str, other: str) -> str:
        a, b = self.the(things, name), self.the(things, other)
        axis = 0 if "left" in words else 1
        first = centre(a)[axis] < centre(b)[axis]
        return ("left" if first else "right") if axis == 0 else ("above" if first else "below")

    def located(self, things: list[Row], way: str, name: str) -> str:
        a = self.the(things, name)
        axis = 0 if way in ("left of", "right of") else 1
        sign = -1 if way in ("left of", "above") else 1
        gaps = []
        for t in things:
            if t is a:
                continue
            lo, hi = span(t, 1 - axis)
            alo, ahi = span(a, 1 - axis)
            common = min(hi, ahi) - max(lo, alo)
            if common <= 0 or sign * (centre(t)[axis] - centre(a)[axis]) <= 0:
                continue
            start, end = span(t, axis)
            astart, aend = span(a, axis)
            gap = start - aend if sign > 0 else astart - end
            gaps.append((gap, t["id"], t))
        (best, _, nearest), *others = sorted(gaps)
        assert all(gap >= best + 0.05 * (320, 256)[axis] for gap, _, _ in others)
        return self.names[nearest["category_id"]]

    def spatial_chain(self, things: list[Row], a: str, b: str, c: str, way: str) -> str:
        axis = 0 if "left" in way else 1
        ordered = sorted([a, b, c], key=lambda name: centre(self.the(things, name))[axis])
        return ", ".join(ordered if way in ("left to right", "top to bottom") else ordered[::-1])

    def occlusion(self, things: list[Row], name: str) -> str:
        a = self.the(things, name)
        shared = {t["id"]: (painted(t) & painted(a)).sum() for t in things if t is not a}
        over = [t for t in things if shared.get(t["id"], 0) > 0.01 * painted(a).sum()]
        (b,) = over
        assert shared[b["id"]] >= 0.5 * painted(b).sum()
        assert 0.05 <= shared[b["id"]] / painted(a).sum() <= 0.5
        return self.names[b["category_id"]]

    def type(self, things: list[Row], kind: str, *box: str) -> str:
        (one,) = {self.names[t["category_id"]] for t in things if [round(n) for n in t["bbox"]] == list(map(int, box))}
        return one

    def size(self, things: list[Row], a: str, b: str) -> str:
        areas = {name: painted(self.the(things, name)).sum() for name in (a, b)}
        assert max(areas.values()) >= 1.5 * min(areas.values())
        return max(areas, key=areas.__getitem__)

    def existence(self, things: list[Row], name: str) -> str:
        return "yes" if self.named(things, name) else "no"


def centre(t: Row) -> tuple[float, float]:
    x, y, w, h = t["bbox"]
    return x + w / 2, y + h / 2


def span(t: Row, axis: int) -> tuple[float, float]:
    return t["bbox"][axis], t["bbox"][axis] + t["bbox"][axis + 2]


def painted(t: Row, width: int = 320, height: int = 256) -> np.ndarray:
    """The mask of rectangles, or of run lengths."""
    found = np.zeros((height, width), bool)
    if isinstance(t["segmentation"], dict):
        flat = np.concatenate([np.full(n, i % 2, bool) for i, n in enumerate(t["segmentation"]["counts"])])
        return flat.reshape(width, height).T
    for part in t["segmentation"]:
        left, top, right, bottom = (int(part[i]) for i in (0, 1, 4, 5))
        found[top:bottom, left:right] = True
    return found
