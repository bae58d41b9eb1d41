"""Picture cells of a table: what ``mmcredit.data.cells`` knows, and members of the zips in the root."""

from __future__ import annotations

import os
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from mmcredit.data.cells import ImageError, Located, locate
from mmcredit.data.images import inspect, read

MAX_BYTES = 256 * 2**20  # of one picture, unpacked


class Pictures:
    """Reads picture cells. Whatever is wrong with one is an ``ImageError``.

    Args:
        root: folder that paths are relative to and may not leave; what is not there is looked for in its zips.
        exif: turn pictures upright; False leaves the pixels as stored.
    """

    def __init__(self, root: Path, exif: bool = True) -> None:
        self.root, self.exif = root.resolve(), exif
        self._zips = sorted(self.root.glob("*.zip"))
        self._open: tuple[int, list[zipfile.ZipFile]] = (0, [])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": (0, [])}

    def encoded(self, cell: object) -> bytes:
        """The bytes of the file."""
        return self._closed(cell)[1]

    def size(self, cell: object) -> tuple[int, int]:
        """Width and height in pixels. The pixels are decoded only where the file does not show that it is whole."""
        name, data = self._closed(cell)
        facts = inspect({"bytes": data, "path": name})
        if not _whole(data):
            read(Located(name, data), self.exif)
        return facts.upright if self.exif else facts.stored

    def open(self, cell: object) -> Image.Image:
        """The picture in RGB."""
        return read(Located(*self._closed(cell)), self.exif)[0]

    def _closed(self, cell: object) -> tuple[str, bytes]:
        """Name and bytes."""
        try:
            found = locate(cell, self.root)
        except ImageError as problem:
            path = cell.get("path") if isinstance(cell, dict) else cell
            if problem.reason != "image_missing" or (data := self._zipped(str(path))) is None:
                raise
            return str(path), data
        if isinstance(found.content, Image.Image):
            raise ImageError("image_path", "a decoded picture is no cell of a table")
        return found.name, found.content.read_bytes() if isinstance(found.content, Path) else found.content

    def _zipped(self, name: str) -> bytes | None:
        member = (self.root / name).resolve().relative_to(self.root).as_posix()
        for archive in self._archives():
            for candidate in (member, member.partition("/")[2]):  # images/a.png of images.zip may be a.png there
                if candidate in archive.NameToInfo:
                    return _unpacked(archive, candidate)
        return None

    def _archives(self) -> list[zipfile.ZipFile]:
        """The zips, opened once in every process."""
        if self._open[0] != os.getpid():
            try:
                self._open = (os.getpid(), [zipfile.ZipFile(path) for path in self._zips])
            except (OSError, zipfile.BadZipFile) as error:
                problem = f"a zip in {self.root} cannot be read ({type(error).__name__})"
                raise ImageError("image_archive", problem) from None
        return self._open[1]


def _unpacked(archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if info.file_size > MAX_BYTES:
        raise ImageError("image_archive", f"image {name[:80]} unpacks to {info.file_size:,} bytes")
    try:
        return archive.read(info)
    except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, ValueError) as error:
        raise ImageError("image_archive", f"image {name[:80]} cannot be unpacked ({type(error).__name__})") from None


def _whole(data: bytes) -> bool:
    """Whether a file can be told to be whole without decoding it: PNG by its checksums, JPEG by its end."""
    if data.startswith(b"\x89PNG"):
        try:
            with Image.open(BytesIO(data)) as picture:
                picture.verify()
        except Exception:  # what is wrong is said by decoding it
            return False
        return True
    return data.startswith(b"\xff\xd8\xff") and data.rstrip(b"\0\r\n").endswith(b"\xff\xd9")
