"""What a reference bank lacks, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from mmcredit.diagnostics.annotation import UNLABELLED
from mmcredit.preparation.files import Row
from mmcredit.types import UserError

SHOWN = 5  # ids a fault


def failures(rows: Sequence[Row], what: str) -> dict[str, list[str]]:
    """What a service did not give, with the kind of fault -> ids of the questions that lack it."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if kind := row.get("failure"):
            found.setdefault(f"{what} ({kind})", []).append(row["id"])
    return found


def refuse(folder: Path, found: Mapping[str, Sequence[str]], hint: str = "") -> NoReturn:
    """Name what is missing: what -> ids of the questions that lack it.

    Raises:
        UserError: always.
    """
    parts = []
    for what, names in found.items():
        shown = ", ".join(names[:SHOWN]) + " ..." * (len(names) > SHOWN)
        parts.append(f"{len(names)} without {what}: {shown}")
    raise UserError(f"the bank {folder} is incomplete and was not sealed: {'; '.join(parts)}{hint}")


def label_hint(folder: Path, found: Mapping[str, Sequence[str]]) -> str:
    """What to type where nobody labelled the claims."""
    if not any(UNLABELLED in what for what in found):
        return ""
    path = folder / "unlabelled.jsonl"
    return f"; fill in the status of each line of {path}, then labels=file labels.path=<that file>"
