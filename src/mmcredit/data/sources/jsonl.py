"""A user's own data: one JSON object a line.

``{"image": "a.png", "question": "how many?", "answer": "2", "family": "counting", "boxes": [[8, 8, 20, 20]]}``

``image`` (or ``images``, a list) is a path relative to the file; leave it out for text-only questions. ``boxes`` are
xywh in absolute pixels of the first image, the primary one first; ``proposal_bbox``, ``target_bbox``,
``argument_bbox`` and ``bbox`` are single boxes. ``id`` defaults to the line number. ``reference`` (a response to
compare with), ``pseudo_ground_truth`` (what the picture shows) and ``key_facts`` (a list) are read by judges,
``solution`` (worked out, with the answer) by OPSD's teacher. ``choices`` (a list) are the options A, B, ... of the
question, where its text does not list them.
``objects`` lists all objects of the picture (shape, color, size, box), for the embedded world's oracles.
"""

from __future__ import annotations

import codecs
from functools import partial
from pathlib import Path
from typing import Any

from mmcredit.data.gate import BadRow, Gate
from mmcredit.data.sources.fields import box, listed, parse, picture, scene_object, text
from mmcredit.functional import stable_seed
from mmcredit.types import Sample, UserError

BOX_FIELDS = ("proposal_bbox", "target_bbox", "argument_bbox", "bbox")
NOTES = (
    "reference",
    "pseudo_ground_truth",
    "key_facts",
    "solution",
    "choices",
)  # become ``Sample.meta``, lists one entry a line
PARTS = ("train", "val", "all")


class Jsonl:
    """Map-style source over a JSON-lines file. Every row is checked when the source is built.

    Args:
        path: the file; images are found relative to its folder and may not lie outside ``root``.
        root: folder that images may not leave; default the file's folder.
        on_bad_row: ``raise`` stops at the first bad row, ``skip`` counts and reports them.
        part: ``train``, ``val`` or ``all``: rows are split by a hash of their id.
        val_share: share of rows that belong to ``val``.

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
    ) -> None:
        if path is None:
            raise UserError("data.path is not set: type data.path=/path/to/file.jsonl")
        if part not in PARTS or not 0 <= val_share <= 1:
            raise UserError(f"data part {part!r} must be one of {', '.join(PARTS)}, data.val_share={val_share} in 0..1")
        self.path = Path(path).expanduser().resolve()
        if not self.path.is_file():
            raise UserError(f"data.path={path} does not exist or is not a file")
        self.root = Path(root).expanduser().resolve() if root else self.path.parent
        rows = self._read(on_bad_row)
        self.rows = [row for row in rows if part == "all" or self._part(row["id"], val_share) == part]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        row = self.rows[index]
        images = tuple(picture(path) for path in row["paths"])
        return Sample(
            row["id"], images, row["question"], row["answer"], row["family"], row["boxes"], objects=row["objects"],
            meta=row["meta"], **row["named"],
        )  # fmt: skip

    @staticmethod
    def _part(row_id: str, val_share: float) -> str:
        return "val" if stable_seed(row_id, "split") % 10_000 < val_share * 10_000 else "train"

    def _read(self, on_bad_row: str) -> list[dict[str, Any]]:
        gate, ids = Gate(str(self.path), on_bad_row), set[str]()
        self.report = gate.report
        lines = self.path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
        given = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        return list(gate.admit((number, partial(self._new, line, number, ids)) for number, line in given))

    def _new(self, line: bytes, number: int, ids: set[str]) -> dict[str, Any]:
        row = self._row(line, number)
        if row["id"] in ids:
            raise BadRow("duplicate_id", f"id {row['id']!r} is already used by an earlier line")
        ids.add(row["id"])
        return row

    def _row(self, line: bytes, number: int) -> dict[str, Any]:
        """One checked row, images still closed."""
        data = parse(line)
        question, answer = text(data, "question", "problem"), text(data, "answer")
        given = [data[key] for key in ("images", "image") if data.get(key) not in (None, [])]
        paths = [self._inside(p) for p in listed(given[0] if given else None)]
        size = picture(paths[0]).size if paths else None
        for path in paths[1:]:
            picture(path)
        boxes = tuple(box(value, "boxes", size) for value in listed(data.get("boxes")))
        objects = tuple(scene_object(value, size) for value in listed(data.get("objects")))
        named = {key: box(data[key], key, size) for key in BOX_FIELDS if data.get(key) is not None}
        if boxes:
            named.setdefault("proposal_bbox", boxes[0])
        notes = {key: listed(data.get(key)) for key in NOTES}
        meta = {key: "\n".join(text({key: v}, key) for v in values) for key, values in notes.items() if values}
        row_id = str(data["id"]) if data.get("id") is not None else f"{self.path.name}:{number}"
        return {
            "id": row_id, "question": question, "answer": answer, "paths": paths, "boxes": boxes, "named": named,
            "family": str(data.get("family") or ""), "objects": objects, "meta": meta,
        }  # fmt: skip

    def _inside(self, name: object) -> Path:
        if not isinstance(name, str) or not name:
            raise BadRow("image_path", f"an image path must be a non-empty string, this is {name!r}")
        try:
            path = (self.path.parent / name).resolve()
            found = path.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, a loop of links
            raise BadRow("image_path", f"image {name[:80]!r} is no usable path ({type(error).__name__})") from None
        if not path.is_relative_to(self.root):
            raise BadRow("image_outside_root", f"image {name} lies outside the data folder (data.root)")
        if not found:
            raise BadRow("image_missing", f"image {name} does not exist")
        return path
