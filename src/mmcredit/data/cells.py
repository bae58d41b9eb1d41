"""Where the picture of a corpus's cell is: a file, bytes, or a picture already."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from PIL.Image import Image

from mmcredit.data.gate import BadRow

MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")  # how picture files begin
BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


class ImageError(BadRow):
    """Why a cell is no usable picture: ``reason`` begins with ``image_``."""


@dataclass(frozen=True, slots=True)
class Located:
    """A cell's picture, still closed, and what messages call it."""

    name: str
    content: Path | bytes | Image


def locate(cell: object, root: Path | None = None, base: Path | None = None) -> Located:
    """The picture behind a cell.

    Args:
        cell: a Pillow picture; ``{"bytes": ..., "path": ...}``, of which ``bytes`` may be None; bytes; or a string: a
            path, base64, a ``data:`` URI.
        root: folder that paths may not leave, symbolic links followed; None refuses paths.
        base: folder to which paths are relative, default ``root``.

    Raises:
        ImageError: none of these forms, a path that leads nowhere or outside, text that is no base64.
    """
    if isinstance(cell, Mapping) and ("bytes" in cell or "path" in cell):
        inner, path = cell.get("bytes"), cell.get("path")
        if inner is None:
            return locate(path, root, base)
        name = Path(path).name if isinstance(path, str) and path else "(bytes)"
        return Located(name, locate(inner, root, base).content)
    if isinstance(cell, Image):
        return Located("(decoded)", cell)
    if isinstance(cell, bytes | bytearray | memoryview):
        return Located("(bytes)", bytes(cell))
    return _of_text(str(cell) if isinstance(cell, Path) else cell, root, base)


def _of_text(cell: object, root: Path | None, base: Path | None) -> Located:
    if not isinstance(cell, str) or not cell.strip():
        what = repr(cell) if cell is None or isinstance(cell, str | int | float) else f"of type {type(cell).__name__}"
        raise ImageError("image_path", f"an image path must be a non-empty string, this is {what}")
    if cell.startswith("data:"):
        return Located("(data URI)", _decoded(cell.partition(",")[2]))
    if BASE64.fullmatch(cell) and _begins_as_picture(cell):
        return Located("(base64)", _decoded(cell))
    return _file(cell, root, base)


def _begins_as_picture(text: str) -> bool:
    head = "".join(text[:64].split())[:16]
    return len(head) == 16 and base64.b64decode(head).startswith(MAGIC)


def _decoded(text: str) -> bytes:
    text = "".join(text.split()).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ImageError("image_base64", "the image's base64 cannot be decoded") from None


def _file(name: str, root: Path | None, base: Path | None) -> Located:
    if ADDRESS.match(name):
        raise ImageError("image_address", f"image {name[:80]} is an address; download it and give the file's path")
    if root is None:
        raise ImageError("image_path", f"image {name[:80]!r} is a path, but this source has no folder of images")
    try:
        path = ((base or root) / name).resolve()
        found = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, a loop of links
        problem = f"image {name[:80]!r} is no usable path ({type(error).__name__})"
        raise ImageError("image_path", problem) from None
    if not path.is_relative_to(root.resolve()):
        raise ImageError("image_outside_root", f"image {name[:80]} lies outside the data folder (data.root)")
    if not found:
        raise ImageError("image_missing", f"image {name[:80]} does not exist")
    return Located(path.name, path)
