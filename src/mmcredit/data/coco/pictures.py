"""The picture files of a COCO folder, as stored: boxes are on those pixels, so orientation tags are not applied."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from mmcredit.data.coco.scene import Picture
from mmcredit.data.images import ImageError, to_rgb

ORIENTATION = 0x0112  # EXIF
DAMAGE = OSError, ValueError, SyntaxError, Image.DecompressionBombError


class PictureError(ImageError):
    """Why a picture cannot be used.

    Args:
        reason: image_missing, image_path, image_size or image_unreadable.
        detail: reads well after the file's name.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def place_of(root: Path, picture: Picture) -> Path:
    """The file of a picture, which may not lie outside the folder.

    Raises:
        PictureError: image_path, image_missing.
    """
    try:
        path = (root / picture.file_name).resolve()
        found = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        raise PictureError("image_path", f"has no usable path ({type(error).__name__})") from None
    if not path.is_relative_to(root.resolve()):
        raise PictureError("image_path", "lies outside the folder of the images")
    if not found:
        raise PictureError("image_missing", "does not exist")
    return path


def open_stored(root: Path, picture: Picture) -> Image.Image:
    """The picture in RGB, as stored.

    Raises:
        PictureError: no such file, damaged, or of another size than the annotations say.
    """
    path = place_of(root, picture)
    try:
        with Image.open(path) as file:
            _expect(file.size, picture)
            file.getexif().pop(ORIENTATION, None)
            return to_rgb(file)
    except PictureError:
        raise
    except DAMAGE as error:
        raise PictureError("image_unreadable", f"cannot be read ({type(error).__name__})") from None


def check_header(root: Path, picture: Picture) -> None:
    """What can be known without decoding.

    Raises:
        PictureError: as ``open_stored``.
    """
    path = place_of(root, picture)
    try:
        with Image.open(path) as file:
            size = file.size
    except DAMAGE as error:
        raise PictureError("image_unreadable", f"cannot be read ({type(error).__name__})") from None
    _expect(size, picture)


def turned(path: Path) -> bool:
    """Whether viewers would turn the picture."""
    with Image.open(path) as file:
        return file.getexif().get(ORIENTATION, 1) != 1


def _expect(size: tuple[int, int], picture: Picture) -> None:
    if size != (picture.width, picture.height):
        expected = f"{picture.width}x{picture.height}"
        raise PictureError("image_size", f"has {size[0]}x{size[1]} pixels, the annotations say {expected}")
