"""Mosaics of real handwritten digits: scikit-learn's 1,797 pictures of 8x8 pixels (UCI ML hand-written digits,
https://archive.ics.uci.edu/dataset/80, CC BY 4.0), scaled up, inked in six colours and placed on a light texture.

Questions, response styles and oracles are the embedded world's, with digits for shapes ("how many red digits are
there?", "which corner is the blue seven in?"); the pictures of ``train`` and ``val`` share no digit. Boxes are exact:
the extent of the pixels that the ink changes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image

from mmcredit.data.sources.optional import optional
from mmcredit.data.world.questions import FAMILIES, Draw
from mmcredit.data.world.scene import CELL, COLORS, CORNERS, DIGITS, Cell, render
from mmcredit.data.world.source import Scenes
from mmcredit.data.world.vocabulary import COUNTS, Vocabulary
from mmcredit.functional import stable_rng, stable_seed
from mmcredit.types import Box, SceneObject

SIDES = {"small": 22, "large": 30}  # of a scaled picture, in pixels; the ink fills a part of it
VAL_SHARE = 0.25  # of the pictures
FAINT = 0.1  # ink below is left out, so that every pixel of the rest differs from the texture
KINDS = [(color, digit) for color in COLORS for digit in DIGITS]


@dataclass(frozen=True, slots=True)
class InkedDigit(SceneObject):
    """A digit of a mosaic: which picture, and where its upper left corner lies (the box holds the ink alone)."""

    picture: int
    x: int
    y: int


@cache
def pictures() -> tuple[np.ndarray, tuple[int, ...]]:
    """[1797, 8, 8] float32 ink in 0..1, and the digit that each picture shows."""
    found = optional("sklearn.datasets", "scikit-learn", "data=digits").load_digits()
    return (found.images / 16).astype(np.float32), tuple(map(int, found.target))


@cache
def ink(picture: int, side: int) -> np.ndarray:
    """[side, side] opacity of a scaled picture, 0..1."""
    scaled = np.asarray(Image.fromarray(pictures()[0][picture]).resize((side, side), Image.Resampling.BICUBIC))
    return np.where(scaled < FAINT, 0, scaled.clip(0, 1))


def part_of(picture: int) -> str:
    """The split that a picture belongs to."""
    return "val" if stable_seed("digits", picture) % 10_000 < VAL_SHARE * 10_000 else "train"


@cache
def pool(split: str) -> dict[str, list[int]]:
    """Digit -> its pictures in a split."""
    labels = pictures()[1]
    return {
        name: [i for i, label in enumerate(labels) if label == digit and part_of(i) == split]
        for digit, name in enumerate(DIGITS)
    }


@cache
def vocabulary(split: str) -> Vocabulary:
    """The embedded world's questions about digits, drawn from the pictures of a split."""

    def place(rng: random.Random, digit: str, color: str, cell: Cell) -> SceneObject:
        picture, size = rng.choice(pool(split)[digit]), rng.choice(list(SIDES))
        side = SIDES[size]
        x, y = (index * CELL + rng.randint(1, CELL - side - 1) for index in cell)
        rows, columns = (np.flatnonzero(ink(picture, side).any(axis)) for axis in (1, 0))
        left, top = x + int(columns[0]), y + int(rows[0])
        box = Box(left, top, x + int(columns[-1]) + 1 - left, y + int(rows[-1]) + 1 - top)
        return InkedDigit(digit, color, size, box, picture, x, y)

    colors = tuple(COLORS)
    return Vocabulary(
        colors=colors,
        shapes=DIGITS,
        place=place,
        prior_color={digit: colors[i % len(colors)] for i, digit in enumerate(DIGITS)},
        prior_shape=dict(zip(colors, DIGITS, strict=False)),
        prior_count={kind: COUNTS[i % len(COUNTS)] for i, kind in enumerate((*DIGITS, *colors))},
        prior_corner={digit: CORNERS[i % len(CORNERS)] for i, digit in enumerate(DIGITS)},
        plural=lambda digit: f"{digit}es" if digit == "six" else f"{digit}s",
        count_color="how many {} digits are there?",
        which_shape="which digit is {}?",
    )


class Digits(Scenes):
    """Mosaics of 2-7 digits on 128x128 pixels, all answers alike.

    Args:
        split: ``train`` or ``val``: three quarters and one quarter of the pictures.
        size, seed, families: see ``Scenes``.

    Raises:
        UserError: unknown split or family; scikit-learn is not installed.
    """

    name, splits = "digits", ("train", "val")

    def __init__(self, split: str, size: int, seed: int = 0, families: Sequence[str] = tuple(FAMILIES)) -> None:
        super().__init__(split, size, seed, families)
        pictures()  # a missing package is named here
        self.words = vocabulary(split)

    def draw(self, index: int) -> Draw:
        """See ``Scenes``."""
        return Draw(stable_rng(self.name, self.seed, self.split, index), prior_share=-1, words=self.words)

    def render(self, objects: Sequence[SceneObject], seed: int) -> Image.Image:
        """See ``Scenes``."""
        canvas = np.asarray(render((), seed), dtype=np.float32).copy()
        for o in objects:
            assert isinstance(o, InkedDigit)
            side = SIDES[o.size]
            spot, opacity = canvas[o.y : o.y + side, o.x : o.x + side], ink(o.picture, side)[..., None]
            spot += opacity * (np.array(COLORS[o.color], np.float32) - spot)
        return Image.fromarray(canvas.round().astype(np.uint8))
