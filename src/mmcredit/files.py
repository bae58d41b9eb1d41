"""Files that are complete or not there, and the settings that a folder was begun with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmcredit.types import UserError


def write_text(path: Path, text: str) -> None:
    """UTF-8, written aside and moved into place; the folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ".new")
    aside.write_text(text, "utf-8")
    aside.replace(path)


def write_json(content: Mapping[str, Any], path: Path) -> None:
    """One object, indented."""
    write_text(path, json.dumps(content, indent=2) + "\n")


def pin(path: Path, settings: Mapping[str, Any], option: str) -> None:
    """Keep the settings that a folder's rows depend on; a later run must have the same.

    Args:
        path: of the file in that folder.
        option: names the folder: ``job.out``.

    Raises:
        UserError: it has others.
    """
    before = json.loads(path.read_text("utf-8")) if path.exists() else settings
    if changed := [key for key in settings if before.get(key) != settings[key]]:
        raise UserError(
            f"{path.parent} was begun with other settings ({', '.join(changed)}): go on with those in {path}, or name "
            f"another folder with {option}=..."
        )
    write_text(path, json.dumps(settings, indent=1) + "\n")
