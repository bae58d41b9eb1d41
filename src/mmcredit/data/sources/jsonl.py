"""A user's own data: one JSON object a line.

``{"image": "a.png", "question": "how many?", "answer": "2", "family": "counting", "boxes": [[8, 8, 20, 20]]}``

``image`` (or ``images``, a list) is a path relative to the file, base64 or a ``data:`` URI; leave it out for text-only
questions (a picture under any other name is refused). ``<image>`` or ``<image 1>`` in the question says where it
stands. ``boxes`` are xywh in absolute pixels of the first image as stored (``exif``), the primary one first;
``proposal_bbox``, ``target_bbox``, ``argument_bbox`` and
``bbox`` are single boxes. ``id`` defaults to the line number. ``reference`` (a response to
compare with), ``pseudo_ground_truth`` (what the picture shows) and ``key_facts`` (a list) are read by judges,
``solution`` (worked out, with the answer) by OPSD's teacher. ``choices`` (a list) are the options A, B, ... of the
question, where its text does not list them. ``pass_rate`` (0..1) is how often some model is right.
``objects`` lists all objects of the picture (shape, color, size, box), for the embedded world's oracles.
"""

from __future__ import annotations

import codecs
import re
from functools import partial
from pathlib import Path
from typing import Any

from mmcredit.data.gate import BadRow, Gate, Outline
from mmcredit.data.images import Facts, decode
from mmcredit.data.placeholders import in_order
from mmcredit.data.source import Info, pass_rate
from mmcredit.data.sources.fields import Orientation, listed, parse, scene_object, text
from mmcredit.data.sources.parts import check_part, part_of
from mmcredit.data.sources.rows import local
from mmcredit.data.verdicts import Verdicts
from mmcredit.types import Sample, UserError

BOX_FIELDS = ("proposal_bbox", "target_bbox", "argument_bbox", "bbox")
NOTES = ("reference", "pseudo_ground_truth", "key_facts", "solution", "choices", "pass_rate")
# become ``Sample.meta``, lists one entry a line
KNOWN = {"id", "answer", "family", "boxes", "objects", *BOX_FIELDS, *NOTES}
PICTURE_FILE = re.compile(r"\.(?:png|jpe?g|webp|gif|bmp|tiff?)$", re.IGNORECASE)


class Jsonl:
    """Map-style source over a JSON-lines file. Every row is checked when the source is built.

    Args:
        path: the file; images are found relative to its folder and may not lie outside ``root``.
        root: folder that images may not leave; default the file's folder.
        on_bad_row: ``raise`` stops at the first bad row, ``skip`` counts and reports them.
        part: ``train``, ``val`` or ``all``: rows are split by a hash of their id.
        val_share: share of rows that belong to ``val``.
        exif: ``both``, ``picture`` or ``none``: ``mmcredit.data.sources.fields.Orientation``.

    Raises:
        UserError: missing file, unknown option, or a bad row under ``raise`` (file, line and reason).
    """

    def __init__(
        self,
        path: str | Path | None,
        root: str | Path | None = None,
        on_bad_row: str = "raise",
        part: str = "all",
        val_share: float = 0.0,
        exif: str = "both",
    ) -> None:
        check_part(part, val_share)
        self.path = local(path, "/path/to/file.jsonl")
        if not self.path.is_file():
            raise UserError(f"data.path={path} is not a file")
        self.root = Path(root).expanduser().resolve() if root else self.path.parent
        self.orientation = Orientation(exif)
        rows = self._read(on_bad_row)
        self.rows = [row for row in rows if part in ("all", part_of(row["id"], val_share))]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        row = self.rows[index]
        images = tuple(decode(c, self.root, self.path.parent, self.orientation.turns) for c in row["cells"])
        return Sample(
            row["id"], images, row["question"], row["answer"], row["family"], row["boxes"], objects=row["objects"],
            meta=row["meta"], **row["named"],
        )  # fmt: skip

    def info(self, index: int) -> Info:
        """What samplers ask, from the row alone."""
        row = self.rows[index]
        boxed = bool(row["named"]) if row["cells"] else None
        return Info(row["family"], pass_rate(row["meta"].get("pass_rate")), boxed)

    def outline(self, index: int) -> Outline:
        """What is checked of the sample."""
        row = self.rows[index]
        return Outline(row["id"], row["question"], row["sizes"], row["answer"])

    def _read(self, on_bad_row: str) -> list[dict[str, Any]]:
        gate, ids = Gate(str(self.path), on_bad_row), set[str]()
        self.report = gate.report
        lines = self.path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
        given = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        with Verdicts() as verdicts:
            rows = ((number, partial(self._new, line, number, ids, verdicts)) for number, line in given)
            return list(gate.admit(rows))

    def _new(self, line: bytes, number: int, ids: set[str], verdicts: Verdicts) -> dict[str, Any]:
        row = self._row(line, number, verdicts)
        if row["id"] in ids:
            raise BadRow("duplicate_id", f"id {row['id']!r} is already used by an earlier line")
        ids.add(row["id"])
        return row

    def _row(self, line: bytes, number: int, verdicts: Verdicts) -> dict[str, Any]:
        """One checked row, images still closed."""
        data = parse(line)
        question, answer = text(data, "question", "problem"), text(data, "answer")
        shown = next((key for key in ("images", "image") if data.get(key) not in (None, [])), "images")
        cells = listed(data.get(shown))
        if not cells and (key := _misnamed(data)):
            raise BadRow("image_field", f"there is no image, but {key} names a picture; the field must be called image")
        asked = "question" if data.get("question") is not None else "problem"
        self.report.columns |= {key: key for key in data if key in KNOWN} | {"question": asked}
        self.report.columns |= {"images": shown} if cells else {}
        facts = [verdicts.facts(cell, self.root, self.path.parent) for cell in cells]
        place = partial(self.orientation.box, facts=facts[0] if facts else None)
        named = {key: place(data[key], key) for key in BOX_FIELDS if data.get(key) is not None}
        boxes = tuple(place(value, "boxes") for value in listed(data.get("boxes")))
        if boxes:
            named.setdefault("proposal_bbox", boxes[0])
        objects = tuple(scene_object(value, place) for value in listed(data.get("objects")))
        notes = {key: listed(data.get(key)) for key in NOTES}
        return {
            "id": str(data["id"]) if data.get("id") is not None else f"{self.path.name}:{number}",
            "answer": answer, "boxes": boxes, "named": named, "family": str(data.get("family") or ""),
            "objects": objects,
            "meta": {key: "\n".join(text({key: v}, key) for v in values) for key, values in notes.items() if values},
            **self._placed(question, list(zip(cells, facts, strict=True)), bool(named or objects)),
        }  # fmt: skip

    def _placed(self, question: str, images: list[tuple[object, Facts]], boxed: bool) -> dict[str, Any]:
        """Question, cells and sizes, images in the order in which the question names them."""
        question, ordered = in_order(question, images)
        if boxed and ordered[0] is not images[0]:
            raise BadRow("placeholder_order", "boxes are on the first image, but the question names another one first")
        sizes = tuple(self.orientation.size(facts) for _, facts in ordered)
        return {"question": question, "cells": tuple(cell for cell, _ in ordered), "sizes": sizes}


def _misnamed(data: dict[str, Any]) -> str | None:
    """The unknown field that names picture files, if there is one: such a row would pass as text only."""
    firsts = ((key, listed(value)[:1]) for key, value in data.items() if key not in {*KNOWN, "question", "problem"})
    return next((k for k, v in firsts if v and isinstance(v[0], str) and PICTURE_FILE.search(v[0])), None)
