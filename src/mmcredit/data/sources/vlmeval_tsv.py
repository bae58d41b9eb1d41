"""VLMEvalKit's TSV files: one row a question, pictures in base64.

An ``image`` cell of at most 64 characters is the index of a row whose picture is shared; a cell that begins with ``[``
is a list literal. ``image_path`` names files under the root, used where there is no ``image``. Option columns are
single capital letters from ``A`` on. All cells are text: ``NA``, ``None`` and ``1.50`` stay as they are; an empty cell
is absent.
"""

from __future__ import annotations

import ast
import base64
import binascii
import csv
import string
from pathlib import Path
from typing import Any

import datasets

from mmcredit.data.gate import BadRow
from mmcredit.data.sources.entries import Entry
from mmcredit.data.sources.rows import Row, Rows, local
from mmcredit.data.sources.table import Table
from mmcredit.types import UserError

REFERENCE = 64  # characters of an ``image`` cell that names another row, at most
CHUNK = 64  # rows of pictures held in memory while the file is read
SELECT = "Please select the correct answer from the options above."


class VLMEvalTSV(Table):
    """See ``Table``. Options are listed after the question, as VLMEvalKit does, and kept in ``meta["choices"]``; the
    other columns are in ``meta``, too."""

    roles = {
        "question": ("question",), "answer": ("answer",), "images": ("image",), "image_path": ("image_path",),
        "id": ("index",), "hint": ("hint",), "category": ("category", "l2-category"),
    }  # fmt: skip
    required = ("question", "answer", "id", "images|image_path")

    def read(self) -> Rows:
        file = local(self.path, "/path/to/set.tsv")
        names = header(file)
        features = datasets.Features({name: datasets.Value("string") for name in names})
        datasets.disable_progress_bars()
        try:
            table = datasets.load_dataset(
                "csv", data_files=[str(file)], split="train", delimiter="\t", features=features, na_filter=False,
                chunksize=CHUNK,
            )  # fmt: skip
        except Exception as error:  # pandas and datasets fail in their own ways
            raise UserError(f"data.path={file} is no tab-separated table ({type(error).__name__})") from error
        rows = Rows(table)
        self.places = {index: place for place, index in reversed(list(enumerate(rows.column("index"))))}
        return rows

    def home(self) -> Path:
        """VLMEvalKit keeps the pictures of ``NAME.tsv`` in ``images/NAME``."""
        beside = super().home() / "images" / Path(self.path).stem
        return beside if beside.is_dir() else super().home()

    def entry(self, row: Row, turn: int) -> Entry:
        options = self.options(row)
        lines = [f"Hint: {self.note(row, 'hint')}"] if self.value(row, "hint") else []
        lines.append(f"Question: {self.text(row, 'question')}" if options else self.text(row, "question"))
        if options:
            lines += ["Options:", *(f"{name}. {value}" for name, value in options.items()), SELECT]
        known = {*self.columns.values(), *string.ascii_uppercase}
        meta: dict[str, str | None] = {name: value for name, value in row.items() if value and name not in known}
        meta["choices"] = "\n".join(" ".join(value.split()) for value in options.values())
        family = self.note(row, "category") or ""
        return Entry("\n".join(lines), self.text(row, "answer"), self.images(row), family, meta=meta)

    def options(self, row: Row) -> dict[str, str]:
        """Options by letter."""
        return {name: row[name] for name in string.ascii_uppercase if row.get(name)}

    def images(self, row: Row) -> tuple[Any, ...]:
        cell, hops = row.get(self.columns.get("images", ""), ""), 0
        while cell and len(cell) <= REFERENCE and not cell.startswith("["):
            if cell not in self.places or (hops := hops + 1) > 8:
                raise BadRow("image_reference", f"image {cell!r} is the index of no row with a picture")
            cell = self.rows[self.places[cell]][self.columns["images"]]
        if cell:
            return tuple(decoded(text) for text in literal(cell))
        return tuple(literal(row.get(self.columns.get("image_path", ""), "")))


def header(file: Path) -> list[str]:
    """Names of the columns."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            names = next(csv.reader(lines, delimiter="\t"), [])
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"data.path={file} is no tab-separated table ({type(error).__name__})") from None
    if "index" not in names or len(set(names)) < len(names):
        raise UserError(f"data.path={file}: the first line must name each column once, with index; it has {names[:20]}")
    return names


def literal(cell: str) -> list[str]:
    """The texts of a list literal; another cell alone; none of an empty one."""
    if not cell.startswith("["):
        return [cell] if cell else []
    try:
        values = ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        values = None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadRow("image_list", f"a list of pictures must be a list of texts, this begins {cell[:40]!r}")
    return values


def decoded(text: str) -> bytes:
    """The bytes of base64 text, with or without a ``data:`` prefix."""
    try:
        return base64.b64decode("".join(text.rpartition(",")[2].split()), validate=True)
    except (binascii.Error, ValueError):
        raise BadRow("image_base64", f"the picture is no base64, it begins {text[:20]!r}") from None
