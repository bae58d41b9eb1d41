"""easy-VQA (package easy-vqa 1.0, MIT, https://github.com/vzhou842/easy-VQA): 64x64 pictures of one shape each on a
plain background, 38,575 training and 9,673 test questions with 13 answers.

The package gives no annotations. What a picture shows is read from its pixels: the shape is whatever differs from the
background; its colour is the commonest one there; a rectangle fills its box, a triangle has most of its pixels in the
lower half, and the rest are circles. Pictures and boxes are scaled by two, to the embedded world's size, whose
response styles and oracles apply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image

from mmcredit.data.gate import Outline
from mmcredit.data.source import Info
from mmcredit.data.sources.optional import optional
from mmcredit.data.world.grammar import phrase
from mmcredit.data.world.questions import Question
from mmcredit.data.world.scene import CANVAS
from mmcredit.data.world.source import as_sample
from mmcredit.functional import stable_rng, stable_seed
from mmcredit.types import Box, Sample, SceneObject, UserError

COLORS = {
    "black": (0, 0, 0),
    "blue": (0, 0, 255),
    "brown": (165, 42, 42),
    "gray": (128, 128, 128),
    "green": (0, 255, 0),
    "red": (255, 0, 0),
    "teal": (0, 128, 128),
    "yellow": (255, 255, 0),
}
SHAPES = ("circle", "rectangle", "triangle")
KINDS = [(color, shape) for color in COLORS for shape in SHAPES]
TOP_OF_TRIANGLE = 0.7  # upper over lower half, in pixels: .37-.56 of the triangles there are, .84-1.10 of the circles
LARGE = 40  # longer side in pixels of the scaled picture
SPLITS, FAMILIES = ("train", "test"), ("attribute", "presence")
YES_NO = ("yes", "no")


def region(pixels_HW3: np.ndarray) -> np.ndarray:
    """[H, W] bool, pixels that differ from the background: the commonest colour of the border."""
    border = np.concatenate([pixels_HW3[0], pixels_HW3[-1], pixels_HW3[:, 0], pixels_HW3[:, -1]])
    colors, counts = np.unique(border, axis=0, return_counts=True)
    return (pixels_HW3 != colors[counts.argmax()]).any(-1)


def shape_in(picture: Image.Image) -> SceneObject:
    """What a picture of the package, or a scaled one, shows."""
    pixels = np.asarray(picture)
    differs = region(pixels)
    rows, columns = (np.flatnonzero(differs.any(axis)) for axis in (1, 0))
    x, y, w, h = columns[0], rows[0], columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1
    colors, counts = np.unique(pixels[differs], axis=0, return_counts=True)
    color = min(COLORS, key=lambda name: np.abs(colors[counts.argmax()] - np.array(COLORS[name])).sum())
    inside = differs[y : y + h, x : x + w]
    top = inside[: h // 2].sum() / inside[-(h // 2) :].sum()
    shape = "rectangle" if inside.all() else "triangle" if top < TOP_OF_TRIANGLE else "circle"
    size = "large" if max(w, h) >= LARGE else "small"
    return SceneObject(shape, color, size, Box(float(x), float(y), float(w), float(h)))


@cache
def opened(path: Path) -> tuple[Image.Image, SceneObject]:
    """A picture of the package, scaled to the embedded world's size, and what it shows."""
    with Image.open(path) as file:
        picture = file.convert("RGB").resize((CANVAS, CANVAS), Image.Resampling.NEAREST)
    return picture, shape_in(picture)


class EasyVQA:
    """Map-style source over the questions of the package, in an order drawn by the seed.

    Args:
        split: ``train`` or ``test``, the package's own.
        size: the first so many questions of that order; null for all.
        seed: another seed is another order.
        families: ``attribute`` (shape or colour), ``presence`` (yes or no).

    Raises:
        UserError: unknown split or family; the package is not installed.
    """

    colors = tuple(COLORS)

    def __init__(self, split: str, size: int | None = None, seed: int = 0, families: Sequence[str] = FAMILIES) -> None:
        if split not in SPLITS:
            raise UserError(f"data split {split!r} does not exist; easy-vqa has {', '.join(SPLITS)}")
        if unknown := [f for f in families if f not in FAMILIES]:
            raise UserError(f"question family {unknown[0]!r} does not exist; easy-vqa has {', '.join(FAMILIES)}")
        package = optional("easy_vqa", "easy-vqa", "data=easy_vqa")
        self.split, self.seed = split, seed
        self.given = list(zip(*getattr(package, f"get_{split}_questions")(), strict=True))
        self.paths = {int(n): Path(p) for n, p in getattr(package, f"get_{split}_image_paths")().items()}
        rows = [i for i, (_, answer, _) in enumerate(self.given) if family_of(answer) in families]
        self.rows = stable_rng("easy_vqa", split, seed).sample(rows, len(rows))[:size]

    def __len__(self) -> int:
        return len(self.rows)

    def question(self, index: int) -> Question:
        """The question behind sample ``index``."""
        text, answer, picture = self.given[self.rows[index]]
        shown = opened(self.paths[picture])[1]
        options = next(words for words in (tuple(COLORS), SHAPES, YES_NO) if answer in words)
        prior = options[stable_seed("easy_vqa prior", text) % len(options)]
        color, shape = (named(words, text) for words in (COLORS, SHAPES))
        focus = phrase(color, shape)
        return Question(family_of(answer), text, answer, prior, options, (shown,), (shown,), focus)

    def info(self, index: int) -> Info:
        """What samplers ask, without a picture."""
        return Info(family_of(self.given[self.rows[index]][1]))

    def outline(self, index: int) -> Outline:
        """What the prompt gate asks, without a picture."""
        text, answer, _ = self.given[self.rows[index]]
        return Outline(self._id(index), text, ((CANVAS, CANVAS),), answer)

    def _id(self, index: int) -> str:
        return f"easy_vqa-{self.split}-{self.rows[index]}"

    def __getitem__(self, index: int) -> Sample:
        picture = opened(self.paths[self.given[self.rows[index]][2]])[0]
        return as_sample(self.question(index), self._id(index), picture)


def family_of(answer: str) -> str:
    """The family of the question that has this answer."""
    return "presence" if answer in YES_NO else "attribute"


def named(words: Sequence[str] | dict, text: str) -> str | None:
    """The word that a question names."""
    return next((word for word in words if re.search(rf"\b{word}\b", text)), None)
