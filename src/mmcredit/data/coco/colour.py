"""Dominant colours, read from the pixels under a mask. Opt-in: an estimate, no annotation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from PIL.Image import Image

from mmcredit.data.coco.counting import box_of
from mmcredit.data.coco.pictures import open_stored
from mmcredit.data.coco.question import Context, Draft, Task
from mmcredit.data.coco.scene import Scene, Thing
from mmcredit.data.images import ImageError

HUES = ((15, "red"), (42, "orange"), (70, "yellow"), (165, "green"), (258, "blue"), (330, "purple"), (361, "red"))


@dataclass(frozen=True)
class Colour(Task):
    """What is the dominant colour of the car?

    Args:
        least: smallest share of the mask's pixels that have it.
    """

    name: ClassVar[str] = "colour"
    family: ClassVar[str] = "attribute"
    least: float = 0.6

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        if not scene.singles or context.images is None:
            return
        try:
            picture = open_stored(context.images, scene.picture)
        except ImageError:
            yield "image_unreadable"
            return
        for one in scene.singles:
            if one.mask is None:
                yield "no_mask"
                continue
            names, counts = np.unique(colours(pixels(picture, one)), return_counts=True)
            if not len(counts) or counts.max() < self.least * counts.sum():
                yield "several_colours"
                continue
            question = f"What is the dominant colour of the {one.category.name}?"
            answer = str(names[counts.argmax()])
            yield Draft(str(one.category.id), "dominant_colour", question, answer, "word", (one,))


def pixels(picture: Image, thing: Thing) -> np.ndarray:
    """[n, 3] uint8, the RGB values under a thing's mask."""
    box = box_of(thing)
    left, top = math.floor(box.x), math.floor(box.y)
    right, bottom = math.ceil(box.x + box.w), math.ceil(box.y + box.h)
    assert thing.mask is not None
    inside = thing.mask.window(left, top, right - left, bottom - top)
    return np.asarray(picture.crop((left, top, right, bottom)))[inside]


def colours(rgb: np.ndarray) -> np.ndarray:
    """The basic colour term of each of [n, 3] pixels, from hue (degrees), saturation and value."""
    values = rgb.astype(float) / 255
    high, low = values.max(1, initial=0), values.min(1, initial=1)
    spread = high - low
    safe = np.where(spread > 0, spread, 1)
    r, g, b = values.T
    hue = np.select([high == r, high == g], [(g - b) / safe % 6, (b - r) / safe + 2], (r - g) / safe + 4) * 60
    saturation = spread / np.where(high > 0, high, 1)
    found = np.array([name for _, name in HUES])[np.searchsorted([end for end, _ in HUES], hue, side="right")]
    warm = (hue < 42) | (hue >= 330)
    found = np.where((found == "orange") & (high < 0.65), "brown", found)
    found = np.where(warm & (high >= 0.7) & (saturation < 0.55) & (saturation >= 0.15), "pink", found)
    found = np.where((hue >= 290) & (hue < 345) & (high >= 0.7), "pink", found)
    found = np.where(saturation < 0.15, np.where(high >= 0.85, "white", "grey"), found)
    return np.where(high < 0.2, "black", found)
