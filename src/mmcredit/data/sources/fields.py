"""Fields of a user's row, checked one by one; what cannot be used raises ``BadRow``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL.Image import Image

from mmcredit.data.gate import BadRow
from mmcredit.data.images import Facts, open_image
from mmcredit.types import Box, SceneObject, UserError

EXIF = ("both", "picture", "none")
CONTROL = re.compile(r"<\|\w{1,40}\|>")  # chat and vision tokens of the known families


def parse(line: bytes) -> dict[str, Any]:
    """The object of one line. What strict JSON could not write back (NaN, lone surrogates) is refused, too."""
    try:
        data = json.loads(line.decode())
        json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadRow("json", f"not valid JSON ({error})") from None
    if not isinstance(data, dict):
        raise BadRow("json", f"a JSON object is needed, this is a {type(data).__name__}")
    return data


def text(data: dict[str, Any], *names: str) -> str:
    """The first of the named fields that is given: text or a number, not empty, without control tokens."""
    value = next((data[name] for name in names if data.get(name) is not None), None)
    if isinstance(value, bool):
        value = "yes" if value else "no"
    if not isinstance(value, str | int | float) or not str(value).strip():
        raise BadRow("missing_field", f"{names[0]} is missing or empty")
    if control := CONTROL.search(str(value)):
        raise BadRow("control_token", f"{names[0]} holds the control token {control[0]}")
    return str(value).strip()


def listed(value: object) -> list[object]:
    """A list as it is, another value in a list of its own, None as the empty list."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def picture(path: Path) -> Image:
    """The picture of a file, in RGB."""
    return open_image(path)


@dataclass(frozen=True, slots=True)
class Orientation:
    """What a source does about photographs that lie on their side in the file (EXIF), and about their boxes.

    ``both``: picture and boxes are turned upright; the boxes count the pixels as stored. ``picture``: the boxes were
    drawn on the upright picture. ``none``: nothing is turned, as COCO counts.

    Raises:
        UserError: another word.
    """

    exif: str = "both"

    def __post_init__(self) -> None:
        if self.exif not in EXIF:
            raise UserError(f"data.exif={self.exif!r} must be one of {', '.join(EXIF)}")

    @property
    def turns(self) -> bool:
        """Whether the model sees the picture upright."""
        return self.exif != "none"

    def size(self, facts: Facts) -> tuple[int, int]:
        """Width and height that the model gets."""
        return facts.upright if self.turns else facts.stored

    def box(self, value: object, name: str, facts: Facts | None) -> Box:
        """A checked box as it lies on the picture that the model gets; errors as in ``box``."""
        if facts is None:
            return box(value, name, None)
        found = box(value, name, facts.upright if self.exif == "picture" else facts.stored)
        return facts.turned(found) if self.exif == "both" else found


def scene_object(value: object, place: Callable[[object, str], Box]) -> SceneObject:
    """An annotated object: shape, color, size and box; ``place`` checks the box."""
    row = value if isinstance(value, dict) else {}
    shape, color, extent = (text(row, key) for key in ("shape", "color", "size"))
    return SceneObject(shape, color, extent, place(row.get("box"), "box"))


def box(value: object, name: str, size: tuple[int, int] | None) -> Box:
    """Four numbers x, y, w, h inside a picture of ``size`` pixels (None: there is none)."""
    if size is None:
        raise BadRow("box_without_image", f"{name} is given but there is no image")
    numbers = value if isinstance(value, list) else []
    given = f"{name} {str(value)[:80]}"
    beyond = f"{given} (x, y, width, height) reaches outside the image of {size[0]}x{size[1]} pixels"
    if len(numbers) != 4 or any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
        raise BadRow("box_malformed", f"{name} must be four numbers x, y, w, h, this is {str(value)[:80]}")
    if max(map(abs, numbers)) > max(size) + 1:  # also numbers too large for a float
        raise BadRow("box_outside_image", beyond)
    found = Box(*map(float, numbers))
    if not (found.w > 0 and found.h > 0 and found.x >= 0 and found.y >= 0):
        raise BadRow("box_malformed", f"{name} {value} needs x, y >= 0 and w, h > 0")
    if found.x + found.w > size[0] + 1 or found.y + found.h > size[1] + 1:
        raise BadRow("box_outside_image", beyond)
    return found
