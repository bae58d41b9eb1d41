"""Fields of a user's row, checked one by one; what cannot be used raises ``BadRow``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from PIL.Image import Image

from mmcredit.data.gate import BadRow
from mmcredit.data.images import ImageError, open_image
from mmcredit.types import Box, SceneObject

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
    try:
        return open_image(path)
    except ImageError as problem:
        raise BadRow("image_unreadable", f"image {path.name} {problem}") from None


def scene_object(value: object, size: tuple[int, int] | None) -> SceneObject:
    """An annotated object: shape, color, size and box."""
    row = value if isinstance(value, dict) else {}
    shape, color, extent = (text(row, key) for key in ("shape", "color", "size"))
    return SceneObject(shape, color, extent, box(row.get("box"), "box", size))


def box(value: object, name: str, size: tuple[int, int] | None) -> Box:
    """Four numbers x, y, w, h inside a picture of ``size`` pixels (None: there is none)."""
    if size is None:
        raise BadRow("box_without_image", f"{name} is given but there is no image")
    numbers = value if isinstance(value, list) else []
    beyond = f"{name} {str(value)[:80]} reaches outside the image of {size[0]}x{size[1]} pixels"
    if len(numbers) != 4 or any(isinstance(n, bool) or not isinstance(n, int | float) for n in numbers):
        raise BadRow("box_malformed", f"{name} must be four numbers x, y, w, h, this is {str(value)[:80]}")
    if max(map(abs, numbers)) > max(size) + 1:  # also numbers too large for a float
        raise BadRow(
            "box_outside_image", f"{name} {str(value)[:80]} reaches outside the image of {size[0]}x{size[1]} pixels"
        )
    found = Box(*map(float, numbers))
    if not (found.w > 0 and found.h > 0 and found.x >= 0 and found.y >= 0):
        raise BadRow("box_malformed", f"{name} {value} needs x, y >= 0 and w, h > 0")
    if found.x + found.w > size[0] + 1 or found.y + found.h > size[1] + 1:
        raise BadRow("box_outside_image", beyond)
    return found
