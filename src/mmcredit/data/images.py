"""Pictures of a corpus as RGB, or the reason why not. Of animated files the first frame counts.

Reasons: ``image_empty`` (no bytes), ``image_not_an_image`` (text, another format), ``image_truncated`` (cut short),
``image_damaged``, ``image_unreadable`` (the system refuses), ``image_bomb`` (too many pixels), ``image_aspect`` (longer
than the processors allow), ``image_too_small`` (no pixel); of cells, ``image_path``, ``image_missing``,
``image_outside_root``, ``image_address``, ``image_base64``.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from mmcredit.data.cells import MAGIC, ImageError, Located, locate
from mmcredit.data.colors import to_rgb
from mmcredit.types import Box

__all__ = ["Facts", "ImageError", "check_shape", "decode", "inspect", "open_image", "read", "to_rgb"]

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # no decoder that runs another program
MAX_PIXELS = 89_478_485  # a quarter GiB of RGB, where Pillow begins to warn
MAX_ASPECT = 200  # the Qwen-VL processors refuse longer ones
ORIENTATION = 0x0112  # EXIF tag
TURN = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip
BACK = {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}  # the other turns undo themselves


@dataclass(frozen=True, slots=True)
class Facts:
    """What a file's header says: pixels as stored, and the EXIF orientation, 1 (upright) to 8."""

    width: int
    height: int
    orientation: int = 1

    @property
    def stored(self) -> tuple[int, int]:
        """Width and height of the pixels in the file."""
        return self.width, self.height

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height of the picture as it is looked at."""
        return (self.height, self.width) if self.orientation >= 5 else (self.width, self.height)

    def turned(self, box: Box) -> Box:
        """The box of the stored pixels on the upright picture."""
        x, y, w, h = box.x, box.y, box.w, box.h
        if self.orientation in (2, 3, 7, 8):
            x = self.width - x - w
        if self.orientation in (3, 4, 6, 7):
            y = self.height - y - h
        return Box(y, x, h, w) if self.orientation >= 5 else Box(x, y, w, h)


def decode(cell: object, root: Path | None = None, base: Path | None = None, exif: bool = True) -> Image.Image:
    """The picture of a cell of any form (``mmcredit.data.cells.locate``) in RGB.

    Args:
        root: folder that paths may not leave.
        base: folder to which paths are relative, default ``root``.
        exif: turn the picture upright; False leaves the pixels as stored, as COCO counts its boxes.

    Raises:
        ImageError: no usable picture; ``reason`` says why.
    """
    return read(locate(cell, root, base), exif)[0]


def inspect(cell: object, root: Path | None = None, base: Path | None = None) -> Facts:
    """Size and orientation by the header alone. Arguments and errors as in ``decode``; pixels may still be damaged."""
    found = locate(cell, root, base)
    with _opened(found) as file:
        return _facts(file, found.name)


def open_image(path: Path, exif: bool = True) -> Image.Image:
    """The picture of a file, wherever it lies, in RGB. Errors as in ``decode``."""
    return read(Located(path.name, path), exif)[0]


def read(found: Located, exif: bool = True) -> tuple[Image.Image, Facts]:
    """The picture and what its header said. Errors as in ``decode``."""
    with _opened(found) as file:
        facts = _facts(file, found.name)
        turned_by_pillow = getattr(file, "format", None) == "TIFF"
        file.load()
        picture = to_rgb(file)
    if facts.orientation in TURN and exif != turned_by_pillow:
        turn = TURN[facts.orientation]
        picture = picture.transpose(turn if exif else BACK.get(facts.orientation, turn))
    return picture, facts


def check_shape(width: int, height: int, name: str) -> None:
    """Refuse a picture that no processor takes.

    Raises:
        ImageError: no pixel, too many, or too long a side.
    """
    if min(width, height) < 1:
        raise ImageError("image_too_small", f"image {name} has no pixel: {width}x{height}")
    if width * height > MAX_PIXELS:
        raise ImageError("image_bomb", f"image {name} of {width}x{height} pixels has more than {MAX_PIXELS:,}")
    if max(width, height) > MAX_ASPECT * min(width, height):
        raise ImageError("image_aspect", f"image {name} of {width}x{height} pixels is longer than {MAX_ASPECT}:1")


def _facts(file: Image.Image, name: str) -> Facts:
    check_shape(*file.size, name)
    given: object = 1
    with suppress(Exception):  # EXIF that cannot be read spoils no picture
        given = Image.Image.getexif(file).get(ORIENTATION, 1)  # PNG's own would load the pixels, errors suppressed
    orientation = given if isinstance(given, int) and given in TURN else 1
    seen = Facts(*file.size, orientation)
    return Facts(*seen.upright, orientation) if file.format == "TIFF" else seen  # whose size Pillow gives upright


@contextmanager
def _opened(found: Located) -> Iterator[Image.Image]:
    """The opened file; whatever goes wrong with it becomes an ``ImageError``."""
    try:
        if isinstance(found.content, Image.Image):
            yield found.content
            return
        if not _size(found.content):
            raise ImageError("image_empty", f"image {found.name} cannot be read: it is empty")
        content = BytesIO(found.content) if isinstance(found.content, bytes) else found.content
        with Image.open(content, formats=FORMATS) as file:
            yield file
    except ImageError:
        raise
    except Exception as error:  # decoders fail in many ways on bytes that they did not expect
        raise _explained(error, found) from None


def _size(content: Path | bytes | Image.Image) -> int:
    return os.stat(content).st_size if isinstance(content, Path) else len(content) if isinstance(content, bytes) else 0


def _explained(error: Exception, found: Located) -> ImageError:
    what = f"image {found.name} cannot be read"
    if isinstance(error, Image.DecompressionBombError):
        return ImageError("image_bomb", f"{what}: it has more than {MAX_PIXELS:,} pixels")
    if isinstance(error, UnidentifiedImageError) and not (head := _head(found.content)).startswith(MAGIC):
        return ImageError("image_not_an_image", f"{what}: it begins with {head!r}; known are {', '.join(FORMATS)}")
    if isinstance(error, OSError) and error.errno is not None:
        return ImageError("image_unreadable", f"{what}: {error.strerror}")
    cut = isinstance(error, EOFError | struct.error | UnidentifiedImageError) or "truncat" in str(error).lower()
    if cut or _short_riff(found.content):
        return ImageError("image_truncated", f"{what}: it is cut short")
    return ImageError("image_damaged", f"{what}: it is damaged ({type(error).__name__})")


def _short_riff(content: Path | bytes | Image.Image) -> bool:
    """WebP announces its length and otherwise does not say why it fails."""
    head = _head(content)
    return head.startswith(b"RIFF") and int.from_bytes(head[4:8], "little") + 8 > _size(content)


def _head(content: Path | bytes | Image.Image) -> bytes:
    if isinstance(content, Path):
        with content.open("rb") as file:
            return file.read(12)
    return content[:12] if isinstance(content, bytes) else b""
