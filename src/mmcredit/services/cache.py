"""Replies kept on disk, one JSON file a key."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from mmcredit.types import UserError


class DiskCache:
    """Text by key. Several processes may share the folder: files are written aside and moved into place.

    Args:
        folder: made if it is absent; None keeps nothing.

    Raises:
        UserError: the folder cannot be made.
    """

    def __init__(self, folder: str | Path | None) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                reason = f"cannot be made: {error.strerror}"
                raise UserError(f"the cache folder {folder} {reason}; cache=null keeps no replies") from None

    def read(self, key: str) -> str | None:
        """The reply, None where there is none.

        Raises:
            ValueError, OSError: the file is damaged.
        """
        if self.folder is None:
            return None
        try:
            entry = json.loads((self.folder / f"{key}.json").read_text("utf-8"))
        except FileNotFoundError:
            return None
        if not isinstance(entry, dict) or not isinstance(entry.get("reply"), str):
            raise ValueError(f"{key}.json holds no reply")
        return entry["reply"]

    def write(self, key: str, reply: str) -> None:
        """Keep a reply.

        Raises:
            OSError: the disk does not take it.
        """
        if self.folder is None:
            return
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".part", delete=False, encoding="utf-8") as file:
            json.dump({"reply": reply}, file)
        os.replace(file.name, self.folder / f"{key}.json")
