"""The picture files of a COCO folder, as stored: boxes are on those pixels, so orientation tags are not applied."""

from __future__ import annotations

from pathlib import Path

from PIL.Image import Image

from mmcredit.data.cells import locate
from mmcredit.data.coco.scene import Picture
from mmcredit.data.images import Facts, ImageError, decode, inspect
from mmcredit.data.verdicts import Verdicts


def place_of(images: Path, picture: Picture) -> Path:
    """The file of a picture.

    Raises:
        ImageError: there is none, it lies outside the folder, or the name is no path.
    """
    content = locate(picture.file_name, images).content
    if not isinstance(content, Path):
        raise ImageError("image_path", f"image {picture.file_name[:80]!r} is no path")
    return content


def check(images: Path, picture: Picture, verdicts: Verdicts | None = None) -> Facts:
    """What the file's header says; with ``verdicts`` all of it is read, once.

    Raises:
        ImageError: no such file, damaged, or of another size than the annotations say.
    """
    path = str(place_of(images, picture))
    return _expected(verdicts.facts(path, images) if verdicts else inspect(path, images), picture)


def open_stored(images: Path, picture: Picture) -> Image:
    """The picture in RGB, as stored. Errors as in ``check``."""
    path = str(place_of(images, picture))
    _expected(inspect(path, images), picture)
    return decode(path, images, exif=False)


def _expected(facts: Facts, picture: Picture) -> Facts:
    if facts.stored != (picture.width, picture.height):
        found, said = (f"{width}x{height}" for width, height in (facts.stored, (picture.width, picture.height)))
        raise ImageError("image_size", f"image {picture.file_name} has {found} pixels, the annotations say {said}")
    return facts
