"""Picture cells of tables: raw bytes, ``{bytes, path}`` structs, and paths to files or members of zips in the root."""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from mmcredit.data.gate import BadRow
from mmcredit.data.images import MAX_ASPECT, ImageError, open_image

Size = tuple[int, int]
MAX_BYTES = 256 * 2**20  # of one picture, unpacked
UNREADABLE = (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError)
_TURNED = (5, 6, 7, 8)  # EXIF orientations that swap width and height


class Pictures:
    """Reads picture cells.

    Args:
        root: folder that paths are relative to and may not leave; zips in it are looked into as well.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._zips = sorted(self.root.glob("*.zip"))
        self._open: tuple[int, list[zipfile.ZipFile]] = (0, [])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": (0, [])}

    def encoded(self, cell: object) -> bytes:
        """The encoded picture.

        Raises:
            BadRow: no picture in the cell, or one that is not there or may not be read.
        """
        if isinstance(cell, dict):
            cell = cell["bytes"] if cell.get("bytes") is not None else cell.get("path")
        if isinstance(cell, bytes):
            data = cell
        elif isinstance(cell, str) and cell:
            data = self._file(cell)
        else:
            raise BadRow("image_cell", f"a picture must be bytes or a path, this is {type(cell).__name__}")
        if not data:
            raise BadRow("image_empty", "the picture has no bytes")
        return data

    def size(self, cell: object) -> Size:
        """Width and height in pixels, upright.

        The pixels are decoded only where the file does not show that it is whole (PNG checksums, the end of a JPEG).

        Raises:
            BadRow: not a whole, usable picture.
        """
        data = self.encoded(cell)
        try:
            with Image.open(BytesIO(data)) as picture:
                width, height = picture.size
                if not (whole := _whole(picture, data)):
                    pass
                elif picture.format == "JPEG" and picture.getexif().get(0x0112) in _TURNED:
                    width, height = height, width
        except UNREADABLE as error:
            raise BadRow("image_unreadable", f"the picture cannot be read ({type(error).__name__})") from None
        if not whole:
            return _decoded(data).size
        if max(width, height) > MAX_ASPECT * min(width, height):
            raise BadRow("image_aspect", f"a picture of {width}x{height} pixels is longer than {MAX_ASPECT}:1")
        return width, height

    def open(self, cell: object) -> Image.Image:
        """The picture in RGB.

        Raises:
            BadRow: not a usable picture.
        """
        return _decoded(self.encoded(cell))

    def _file(self, name: str) -> bytes:
        try:
            path = (self.root / name).resolve()
            inside, found = path.is_relative_to(self.root), path.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, a loop of links
            raise BadRow("image_path", f"image {name[:80]!r} is no usable path ({type(error).__name__})") from None
        if not inside:
            raise BadRow("image_outside_root", f"image {name[:80]} lies outside the data folder (data.root)")
        if found:
            return path.read_bytes()
        member = str(path.relative_to(self.root).as_posix())
        for archive in self._archives():
            for candidate in (member, member.partition("/")[2]):  # images/a.png of images.zip may be a.png there
                if candidate and (data := _member(archive, candidate)) is not None:
                    return data
        raise BadRow("image_missing", f"image {name[:80]} does not exist")

    def _archives(self) -> list[zipfile.ZipFile]:
        """The zips, opened once in every process."""
        if self._open[0] != os.getpid():
            try:
                self._open = (os.getpid(), [zipfile.ZipFile(path) for path in self._zips])
            except (OSError, zipfile.BadZipFile) as error:
                raise BadRow("image_archive", f"a zip of {self.root} cannot be read ({type(error).__name__})") from None
        return self._open[1]


def _member(archive: zipfile.ZipFile, name: str) -> bytes | None:
    try:
        info = archive.getinfo(name)
    except KeyError:
        return None
    if info.file_size > MAX_BYTES:
        raise BadRow("image_too_large", f"image {name[:80]} unpacks to {info.file_size:,} bytes")
    try:
        return archive.read(info)
    except (OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:  # damaged, encrypted
        raise BadRow("image_archive", f"image {name[:80]} cannot be unpacked ({type(error).__name__})") from None


def _whole(picture: Image.Image, data: bytes) -> bool:
    """Whether that can be told without decoding: of PNG by its checksums, of JPEG by its end."""
    if picture.format == "PNG" and b"eXIf" not in data:
        picture.verify()
        return True
    return picture.format == "JPEG" and data.rstrip(b"\0\r\n").endswith(b"\xff\xd9")


def _decoded(data: bytes) -> Image.Image:
    try:
        return open_image(BytesIO(data))  # type: ignore[arg-type]
    except ImageError as problem:
        raise BadRow("image_unreadable", f"the picture {problem}") from None
