"""What a scene can hold, how it is asked about, and the answer that the language prior gives to each question."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mmcredit.data.world.scene import COLORS, SHAPES, Cell, place
from mmcredit.types import SceneObject

COUNTS = ("1", "2", "3", "4")


@dataclass(frozen=True)
class Vocabulary:
    """Kinds of objects, and the words of questions. ``prior_*`` are prior answers: they depend on the question alone.

    Args:
        place: makes an object of a shape and a colour inside a grid cell.
        plural: of a shape.
        count_color, which_shape: questions with a place for a colour.
    """

    colors: tuple[str, ...]
    shapes: tuple[str, ...]
    place: Callable[[random.Random, str, str, Cell], SceneObject]
    prior_color: Mapping[str, str]  # of a shape
    prior_shape: Mapping[str, str]  # of a colour
    prior_count: Mapping[str, str]  # of a shape or a colour
    prior_corner: Mapping[str, str]  # of a shape
    plural: Callable[[str], str]
    count_color: str
    which_shape: str


WORLD = Vocabulary(
    colors=tuple(COLORS),
    shapes=SHAPES,
    place=place,
    prior_color={"triangle": "red", "square": "blue", "circle": "green"},
    prior_shape={
        "red": "triangle", "blue": "square", "green": "circle", "yellow": "triangle", "purple": "square",
        "orange": "circle",
    },
    prior_count={
        "triangle": "2", "square": "3", "circle": "1",
        "red": "2", "blue": "3", "green": "1", "yellow": "2", "purple": "3", "orange": "1",
    },
    prior_corner={"triangle": "top left", "square": "bottom right", "circle": "top right"},
    plural="{}s".format,
    count_color="how many {} objects are there?",
    which_shape="what shape is the {} object?",
)  # fmt: skip
