"""Segmentations of COCO: polygons in several parts, and column-major run lengths, as lists or compressed strings.

Format of the compressed string: ``rleFrString`` of https://github.com/cocodataset/cocoapi/blob/master/common/maskApi.c
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MAX_PIXELS = 2**27
LIMIT = 1e9  # pixels; numbers beyond are no coordinates


@dataclass(frozen=True, slots=True)
class Polygons:
    """Outlines [x0, y0, x1, y1, ...] in pixels; a pixel belongs to a part iff its centre lies inside (even-odd)."""

    parts: tuple[array[float], ...]

    def window(self, x: int, y: int, width: int, height: int) -> np.ndarray:
        """[height, width] bool of the pixels from (x, y) on."""
        found = np.zeros((height, width), bool)
        for part in self.parts:
            found |= _filled(np.asarray(part, float).reshape(-1, 2) - (x, y), width, height)
        return found


@dataclass(frozen=True, slots=True)
class Runs:
    """Run lengths down the columns of a whole picture, zeros first."""

    counts: Sequence[int]
    width: int
    height: int

    def window(self, x: int, y: int, width: int, height: int) -> np.ndarray:
        """[height, width] bool of the pixels from (x, y) on."""
        values = np.arange(len(self.counts)) % 2 == 1
        whole = np.repeat(values, self.counts).reshape(self.width, self.height).T
        return whole[y : y + height, x : x + width]


Mask = Polygons | Runs


def parse(segmentation: object, width: int, height: int) -> Mask:
    """The mask of an annotation on a picture of that size.

    Raises:
        ValueError: neither polygons of three points at least, nor run lengths that fill the picture.
    """
    if isinstance(segmentation, dict):
        return _runs(segmentation, width, height)
    if not isinstance(segmentation, list | tuple) or not segmentation:
        raise ValueError("no segmentation")
    return Polygons(tuple(_part(part) for part in segmentation))


def packed(segmentation: object) -> object:
    """Polygons in a seventh of the memory; anything else as it is."""
    try:
        return tuple(array("f", part) for part in segmentation) if isinstance(segmentation, list) else segmentation
    except (TypeError, OverflowError):
        return segmentation


def counts_of(text: str) -> list[int]:
    """Run lengths of a compressed string: five bits a character, least significant first, differences from the last
    run but one."""
    counts, place = list[int](), 0
    while place < len(text):
        value, bits, more = 0, 0, True
        while more:
            if place >= len(text) or not 48 <= ord(text[place]) < 112 or bits > 35:
                raise ValueError("the compressed run lengths are damaged")
            code = ord(text[place]) - 48
            value |= (code & 0x1F) << bits
            more, place, bits = bool(code & 0x20), place + 1, bits + 5
        if code & 0x10:
            value -= 1 << bits
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return counts


def _runs(data: dict[str, object], width: int, height: int) -> Runs:
    size, counts = data.get("size"), data.get("counts")
    if list(size) != [height, width] if isinstance(size, list | tuple) else True:
        raise ValueError(f"run lengths for a size of {size}, the picture has {[height, width]}")
    if width * height > MAX_PIXELS:
        raise ValueError("the picture has too many pixels")
    counts = counts_of(counts) if isinstance(counts, str) else counts
    if not isinstance(counts, list) or any(type(n) is not int or n < 0 for n in counts):
        raise ValueError("run lengths must be whole numbers from 0 on")
    if sum(counts) != width * height:
        raise ValueError(f"run lengths sum to {sum(counts)}, the picture has {width * height} pixels")
    return Runs(counts, width, height)


def _part(part: object) -> array[float]:
    if isinstance(part, list) and all(type(n) in (int, float) and abs(n) < LIMIT for n in part):
        part = array("f", part)
    if not isinstance(part, array) or len(part) < 6 or len(part) % 2 or not math.isfinite(sum(part)):
        raise ValueError("a polygon needs three points or more, as x, y, x, y, ...")
    return part


def _filled(points: np.ndarray, width: int, height: int) -> np.ndarray:
    """[height, width] bool, the pixel centres inside the outline: behind an odd number of crossings of their row."""
    x0, y0 = points.T
    x1, y1 = np.roll(points, -1, 0).T
    first = np.clip(np.ceil(np.minimum(y0, y1) - 0.5), 0, height).astype(int)  # rows whose centres an edge crosses
    last = np.clip(np.ceil(np.maximum(y0, y1) - 0.5), 0, height).astype(int)
    edge = np.repeat(np.arange(len(points)), last - first)
    starts = np.cumsum(last - first) - (last - first)
    row = np.arange(len(edge)) - starts[edge] + first[edge]
    crossing = x0[edge] + (row + 0.5 - y0[edge]) * (x1 - x0)[edge] / (y1 - y0)[edge]
    column = np.clip(np.ceil(crossing - 0.5), 0, width).astype(int)
    crossings = np.bincount(row * (width + 1) + column, minlength=height * (width + 1)).reshape(height, width + 1)
    return np.cumsum(crossings[:, :width], axis=1) % 2 == 1
