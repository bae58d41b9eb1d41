"""Rows on disk, one JSON object a line: what was written is never lost, and a finished file is complete."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmcredit.files import write_text

Row = dict[str, Any]  # with an "id"; with a "failure" where its service gave no answer


def read_rows(path: Path) -> list[Row]:
    """The complete lines of a file, none where there is no file; a last line that was cut off while it was written is
    left out."""
    rows: list[Row] = []
    for line in path.read_text("utf-8").split("\n")[:-1] if path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """A file that is complete or not there."""
    write_text(path, "".join(_line(row) for row in rows))


def completed(path: Path, ids: Sequence[str], work: Callable[[list[str]], Sequence[Row]], batch: int) -> list[Row]:
    """A row of each id, in order: those on file, and the others from ``work``, written batch by batch.

    Rows are appended to ``<path>.partial``, which becomes ``path`` when all are there. Rows with a failure are asked
    for again the next time.
    """
    partial = path.with_name(path.name + ".partial")
    known = {row["id"]: row for row in [*read_rows(path), *read_rows(partial)] if "failure" not in row}
    todo = [name for name in ids if name not in known]
    if not todo and path.exists():
        return [known[name] for name in ids]
    write_rows(partial, known.values())
    for start in range(0, len(todo), batch):
        rows = work(todo[start : start + batch])
        with partial.open("a", encoding="utf-8") as file:
            file.writelines(map(_line, rows))
            file.flush()
            os.fsync(file.fileno())
        known |= {row["id"]: row for row in rows}
        print(f"{path.stem}: {min(start + batch, len(todo))} of {len(todo)}", flush=True)
    partial.replace(path)
    return [known[name] for name in ids]


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
