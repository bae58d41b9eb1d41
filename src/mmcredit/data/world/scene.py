"""Scenes of the embedded world: 2-7 coloured shapes on a 4x4 grid with jitter, drawn at 128x128."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from mmcredit.types import Box, SceneObject

CANVAS, GRID = 128, 4
CELL = CANVAS // GRID
MAX_OBJECTS, MAX_DISTRACTORS = 7, 3
COLORS = {
    "red": (220, 40, 40),
    "green": (40, 170, 60),
    "blue": (50, 80, 220),
    "yellow": (235, 205, 40),
    "purple": (150, 60, 190),
    "orange": (245, 140, 30),
}
SHAPES = ("circle", "square", "triangle")
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")  # shapes of data=digits
OTHER_SHAPES, OTHER_COLORS = ("rectangle",), ("black", "brown", "gray", "teal")  # of data=easy_vqa
SIZES = {"small": 20, "large": 28}  # side in pixels
KINDS = [(color, shape) for color in COLORS for shape in SHAPES]
CORNERS = ("top left", "top right", "bottom left", "bottom right")

Cell = tuple[int, int]  # column, row


def corner_of(box: Box) -> str:
    """The quarter of the image that holds the centre of the box."""
    x, y = box.centre
    return f"{'top' if y < CANVAS / 2 else 'bottom'} {'left' if x < CANVAS / 2 else 'right'}"


def cells_in(corner: str) -> list[Cell]:
    """Grid cells that lie in a quarter of the image."""
    vertical, horizontal = corner.split()
    half = range(GRID // 2)
    rows = half if vertical == "top" else range(GRID // 2, GRID)
    columns = half if horizontal == "left" else range(GRID // 2, GRID)
    return [(column, row) for row in rows for column in columns]


def place(rng: random.Random, shape: str, color: str, cell: Cell) -> SceneObject:
    """An object of random size, jittered inside its cell."""
    size = rng.choice(list(SIZES))
    side = SIZES[size]
    x, y = (index * CELL + rng.randint(1, CELL - side - 1) for index in cell)
    return SceneObject(shape, color, size, Box(x, y, side, side))


def reading_order(objects: Sequence[SceneObject]) -> tuple[SceneObject, ...]:
    """Objects by grid row, then column."""
    return tuple(sorted(objects, key=lambda o: (o.box.centre[1] // CELL, o.box.centre[0])))


def render(objects: Sequence[SceneObject], seed: int) -> Image.Image:
    """Draw the objects over a light noise texture; the same seed gives the same picture."""
    noise = np.random.default_rng(seed).integers(232, 256, (CANVAS // 8, CANVAS // 8, 3), dtype=np.uint8)
    picture = Image.fromarray(noise).resize((CANVAS, CANVAS), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(picture)
    for o in objects:
        x0, y0 = o.box.x, o.box.y
        x1, y1 = x0 + o.box.w - 1, y0 + o.box.h - 1  # Pillow draws the last pixel, too
        outline = {
            "circle": lambda c, e=(x0, y0, x1, y1): draw.ellipse(e, fill=c),
            "square": lambda c, e=(x0, y0, x1, y1): draw.rectangle(e, fill=c),
            "triangle": lambda c, p=((x0 + x1) / 2, y0, x0, y1, x1, y1): draw.polygon(p, fill=c),
        }
        outline[o.shape](COLORS[o.color])
    return picture
