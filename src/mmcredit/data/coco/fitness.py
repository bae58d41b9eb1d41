"""Which boxes a model can see and an evidence method can measure. All filters of boxes are here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mmcredit.data.coco.scene import Picture
from mmcredit.types import Box, UserError


@dataclass(frozen=True)
class Fitness:
    """Bounds of evidence boxes.

    Args:
        min_area, max_area: shares of the picture, both allowed.
        max_union: largest share of a box around several objects.
        max_coverage: largest share of the visual tokens.
        token: side of a merged visual token, pixels after the resize: 28 for Qwen2.5-VL, 32 for Qwen3-VL.
        min_pixels, max_pixels: of the resized picture.
        max_iou: overlap of the evidence box with a reference box of its size, which must exist.

    Raises:
        UserError: a value out of its range.
    """

    min_area: float = 0.005
    max_area: float = 0.35
    max_union: float = 0.5
    max_coverage: float = 0.5
    token: int = 28
    min_pixels: int = 56 * 56
    max_pixels: int = 12_845_056
    max_iou: float = 0.05

    def __post_init__(self) -> None:
        shares = self.min_area <= self.max_area <= self.max_union <= 1 and 0 < self.max_coverage <= 1
        sizes = self.token >= 2 and self.token**2 <= self.min_pixels <= self.max_pixels
        if not (self.min_area >= 0 and shares and sizes and 0 <= self.max_iou < 1):
            raise UserError(
                f"fitness: 0 <= min_area <= max_area <= max_union <= 1, 0 < max_coverage <= 1, 0 <= max_iou < 1, "
                f"token >= 2 and token**2 <= min_pixels <= max_pixels are needed, this is {self}"
            )

    def unseen(self, box: Box, picture: Picture) -> str | None:
        """Why an object's box is too small to be asked about."""
        if share(box, picture) < self.min_area:
            return "small"
        width, height = self.resized(picture)
        if box.w * width / picture.width < self.token or box.h * height / picture.height < self.token:
            return "below_a_token"
        return None

    def fault(self, box: Box, picture: Picture, union: bool = False) -> str | None:
        """Why a box is no evidence region. ``union``: it is a box around several objects."""
        if fault := self.unseen(box, picture):
            return fault
        if share(box, picture) > (self.max_union if union else self.max_area):
            return "large"
        columns, rows = self.tokens(box, picture)
        width, height = self.resized(picture)
        if not columns or not rows:
            return "no_token"
        if columns * rows > self.max_coverage * (width // self.token) * (height // self.token):
            return "coverage"
        return None if feasible(box, picture, self.max_iou) else "no_reference"

    def resized(self, picture: Picture) -> tuple[int, int]:
        """Width and height that the model sees: multiples of a token, as Qwen-VL's ``smart_resize`` has it."""
        width, height, unit = picture.width, picture.height, self.token
        w, h = max(unit, round(width / unit) * unit), max(unit, round(height / unit) * unit)
        if w * h > self.max_pixels:
            scale = math.sqrt(width * height / self.max_pixels)
            w, h = (max(unit, math.floor(side / scale / unit) * unit) for side in (width, height))
        elif w * h < self.min_pixels:
            scale = math.sqrt(self.min_pixels / (width * height))
            w, h = (math.ceil(side * scale / unit) * unit for side in (width, height))
        return w, h

    def tokens(self, box: Box, picture: Picture) -> tuple[int, int]:
        """Columns and rows of merged tokens with a patch (half a token) whose centre lies in the box."""
        width, height = self.resized(picture)
        return (
            _covered(box.x, box.w, picture.width, 2 * width // self.token),
            _covered(box.y, box.h, picture.height, 2 * height // self.token),
        )


def _covered(start: float, length: float, pixels: int, patches: int) -> int:
    first = math.ceil(start * patches / pixels - 0.5)
    last = math.ceil((start + length) * patches / pixels - 0.5) - 1
    first, last = max(first, 0), min(last, patches - 1)
    return max(last // 2 - first // 2 + 1, 0) if last >= first else 0


def share(box: Box, picture: Picture) -> float:
    """The box's share of the picture."""
    return box.area / (picture.width * picture.height)


def feasible(box: Box, picture: Picture, max_iou: float) -> bool:
    """Whether a box of the same size with at most that IoU fits in: the farther corner is the best place."""
    x = max(box.x, picture.width - box.x - box.w)
    y = max(box.y, picture.height - box.y - box.h)
    overlap = max(1 - x / box.w, 0) * max(1 - y / box.h, 0)
    return overlap <= 2 * max_iou / (1 + max_iou)


def union(boxes: tuple[Box, ...]) -> Box:
    """The box around all."""
    left, top = min(b.x for b in boxes), min(b.y for b in boxes)
    right, bottom = max(b.x + b.w for b in boxes), max(b.y + b.h for b in boxes)
    return Box(left, top, right - left, bottom - top)
