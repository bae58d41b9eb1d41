"""Picture cells of a table: what ``mmcredit.data.cells`` knows, and members of the zips in the root."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL.Image import Image

from mmcredit.data.cells import ImageError, locate
from mmcredit.data.images import decode, inspect
from mmcredit.data.verdicts import Verdicts

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
        self._verdicts: Verdicts | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": (0, []), "_verdicts": None}

    @contextmanager
    def checking(self) -> Iterator[None]:
        """Within, ``size`` decodes each picture that was never found sound before."""
        with Verdicts() as self._verdicts:
            yield
        self._verdicts = None

    def size(self, cell: object) -> tuple[int, int]:
        """Width and height in pixels, by the header where the picture is not checked."""
        given = self._given(cell)
        facts = self._verdicts.facts(given, self.root) if self._verdicts else inspect(given, self.root)
        return facts.upright if self.exif else facts.stored

    def open(self, cell: object) -> Image:
        """The picture in RGB."""
        return decode(self._given(cell), self.root, exif=self.exif)

    def encoded(self, cell: object) -> bytes:
        """The bytes of the file."""
        content = locate(self._given(cell), self.root).content
        if isinstance(content, Image):
            raise ImageError("image_path", "a decoded picture is no cell of a table")
        return content.read_bytes() if isinstance(content, Path) else content

    def _given(self, cell: object) -> object:
        """The cell; if it is a path to no file, the bytes of that member of a zip."""
        try:
            locate(cell, self.root)
        except ImageError as problem:
            path = str(cell.get("path") if isinstance(cell, dict) else cell)
            if problem.reason != "image_missing" or (data := self._zipped(path)) is None:
                raise
            return {"bytes": data, "path": path}
        return cell

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
    except Exception as error:  # damaged, encrypted, an unknown method: each fails in its own way
        raise ImageError("image_archive", f"image {name[:80]} cannot be unpacked ({type(error).__name__})") from None
