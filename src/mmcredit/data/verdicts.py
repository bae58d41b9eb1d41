"""Pictures that were decoded once and found sound: a big corpus is checked in full at its first use only."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import PIL
from PIL.Image import Image

from mmcredit.data.cells import Located, locate
from mmcredit.data.images import Facts, read

RULES = 1  # another number forgets what was found under older rules
TABLE = "CREATE TABLE IF NOT EXISTS sound (picture TEXT PRIMARY KEY, width INT, height INT, orientation INT)"


def cache_folder() -> Path:
    """``MMCREDIT_CACHE``, else ``mmcredit`` in the user's cache folder."""
    above = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("MMCREDIT_CACHE") or f"{above}/mmcredit").expanduser()


class Verdicts:
    """Decodes each picture in full, once. A file is known by path, size and time of change, bytes by a hash of them.

    Where the cache cannot be written, every picture is decoded each time. Use it as a context manager.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_folder()
        self._known: sqlite3.Connection | None = None

    def __enter__(self) -> Verdicts:
        with suppress(OSError, sqlite3.Error):
            self.folder.mkdir(parents=True, exist_ok=True)
            file = self.folder / f"images-{RULES}-{PIL.__version__}.sqlite"
            self._known = sqlite3.connect(file, isolation_level=None)
            self._known.execute("PRAGMA synchronous=OFF")
            self._known.execute(TABLE)
        return self

    def __exit__(self, *_: object) -> None:
        if self._known is not None:
            self._known.close()
            self._known = None

    def facts(self, cell: object, root: Path | None = None, base: Path | None = None) -> Facts:
        """Size and orientation of a sound picture; arguments as in ``mmcredit.data.images.decode``.

        Raises:
            ImageError: it is not.
        """
        found = locate(cell, root, base)
        key = _key(found)
        if key is not None and (known := self._get(key)) is not None:
            return known
        facts = read(found)[1]
        if key is not None:
            self._put(key, facts)
        return facts

    def _get(self, key: str) -> Facts | None:
        if self._known is None:
            return None
        with suppress(sqlite3.Error):
            sought = "SELECT width, height, orientation FROM sound WHERE picture = ?"
            with closing(self._known.execute(sought, (key,))) as rows:
                row = rows.fetchone()
            return None if row is None else Facts(*row)
        return None

    def _put(self, key: str, facts: Facts) -> None:
        if self._known is not None:
            with suppress(sqlite3.Error):
                row = (key, *facts.stored, facts.orientation)
                self._known.execute("INSERT OR REPLACE INTO sound VALUES (?, ?, ?, ?)", row)


def _key(found: Located) -> str | None:
    if isinstance(found.content, Image):
        return None
    if isinstance(found.content, bytes):
        return hashlib.blake2b(found.content, digest_size=16).hexdigest()
    with suppress(OSError):
        state = found.content.stat()
        return f"{found.content}:{state.st_size}:{state.st_mtime_ns}"
    return None
