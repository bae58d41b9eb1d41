"""The reference release of Evidence-RL (https://github.com/evidencerl/code, ``data/vg_brutal_pairs.jsonl``): 21,758
questions about 1,312 Visual Genome pictures, Apache-2.0.

Each pair is asked twice; a row with ``gt_present: false`` asks or answers a trap, and its ``answer`` is often the
wrong one. The paper's 15,314 training rows are the pictures of ``train`` (by md5 of the image id, .8 / .1 / .1), three
families and *all* of their rows: ``negative_rows=train``.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mmcredit.data.gate import BadRow
from mmcredit.data.sources.entries import Entry, LeftOut, choose
from mmcredit.data.sources.fields import parse
from mmcredit.data.sources.rows import Row, local
from mmcredit.data.sources.table import Table
from mmcredit.types import Box, UserError

TASKS = {  # task -> family, as released
    "count_exclusion": "counting",
    **dict.fromkeys(("spatial_chain", "occlusion", "multihop_cross"), "spatial"),
    **dict.fromkeys(("attr_conjunction", "finegrained", "action_state"), "attribute"),
    "cooccur_bait": "other",
}
HINTS = {  # part of another label -> family
    "counting": ("count",),
    "attribute": ("attr", "fine", "state", "action", "desc", "color", "material"),
    "spatial": ("spatial", "loc", "occlusion", "between", "relation", "behind", "front"),
    "presence": ("exist", "presence", "yesno", "hallucination", "probe"),
}
BEGINNINGS = {  # of a question without a label -> family
    "counting": r"how\s+many|what\s+number\s+of",
    "presence": r"is|are|was|were|do|does|did|has|have|had|can|could|would|should|will",
    "spatial": r"where|what\s+is\s+(?:located|between|behind|in\s+front\s+of|occluding)|which\s+object\s+is",
    "attribute": r"describe|what\s+(?:color|kind|material|state|condition)|what\s+does\s+the",
}
BOXES = ("proposal_bbox", "target_bbox", "argument_bbox", "bbox")
FAMILIES = ("counting", "attribute", "spatial")


class Lines(Sequence[Row]):
    """JSON lines, kept as bytes; one that cannot be read is ``{"unreadable": why}``."""

    def __init__(self, file: Path) -> None:
        data = file.read_bytes().removeprefix(codecs.BOM_UTF8)
        self._lines = [line for line in data.splitlines() if line.strip()]
        self.names = list(dict.fromkeys(name for i in range(min(len(self), 100)) for name in self[i]))

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: Any) -> Any:
        try:
            return parse(self._lines[index])
        except BadRow as problem:
            return {"unreadable": str(problem)}


class VgBrutal(Table):
    """See ``Table``. Parts are ``train``, ``val`` and ``probe``, the last ``probe_share`` of the pictures.

    Args:
        path: the JSON-lines file.
        root: folder of the pictures: ``1.jpg``, or ``VG_100K/1.jpg`` and ``VG_100K_2/1.jpg``; default
            ``visual_genome`` beside the file if there is one, else the file's folder.
        negative_rows: rows whose object or answer is a trap: ``drop``, ``probe`` (only there) or ``train``.
        families: those to keep.
    """

    roles = {
        "question": ("question",), "answer": ("answer",), "image_path": ("image_path",), "image_file": ("image_file",),
        "id": ("pair_id",), "image_id": ("image_id",), "task": ("task_family", "task_type"), "present": ("gt_present",),
        "trap": ("trap_mechanism",), **{name: (name,) for name in BOXES},
    }  # fmt: skip
    required = ("question", "answer", "image_path|image_file", "image_id")
    parts = ("train", "val", "probe", "all")
    exif = False  # boxes are on the pixels as stored
    repeats = True  # some pictures were annotated twice; the paper counts both

    def __init__(
        self,
        path: str | Path | None,
        root: str | Path | None = None,
        val_share: float = 0.1,
        probe_share: float = 0.1,
        negative_rows: str = "drop",
        families: Sequence[str] = FAMILIES,
        **options: Any,
    ) -> None:
        choose("data.negative_rows", negative_rows, ("drop", "probe", "train"))
        if not 0 <= val_share + probe_share <= 1 or probe_share < 0:
            raise UserError(f"data.val_share={val_share} and data.probe_share={probe_share} must lie in 0..1 together")
        self.probe_share, self.negative_rows, self.families = probe_share, negative_rows, tuple(families)
        self.compared = negative_rows != "train"  # the paper counts every row
        super().__init__(path, root, val_share=val_share, **options)

    def read(self) -> Any:
        return Lines(local(self.path, "/path/to/vg_brutal_pairs.jsonl"))

    def home(self) -> Path:
        beside = super().home() / "visual_genome"
        return beside if beside.is_dir() else super().home()

    def name(self, row: Row, index: int) -> str:
        """Pair ids repeat over pictures, and both rows of a pair have the same."""
        return f"{row.get('image_id')}:{self.value(row, 'id')}" + (
            "" if present(self.value(row, "present")) else ":trap"
        )

    def part_of(self, row: Row, index: int) -> str:
        if self.negative_rows == "probe" and not present(self.value(row, "present")):
            return "probe"
        place = fraction(row.get("image_id", -1))
        return (
            "train"
            if place < 1 - self.val_share - self.probe_share
            else "val"
            if place < 1 - self.probe_share
            else "probe"
        )

    def entry(self, row: Row, turn: int) -> Entry:
        if "unreadable" in row:
            raise BadRow("json", row["unreadable"])
        question, answer = self.text(row, "question"), self.text(row, "answer")
        task = str(self.value(row, "task") or "").strip().lower()
        if (family := family_of(task, question)) not in self.families:
            raise LeftOut("family", f"family {family} is not chosen (data.families)")
        trap = not present(self.value(row, "present"))
        if trap and self.negative_rows == "drop":
            raise LeftOut("negative_row", "the row is a trap (data.negative_rows)")
        given = {name: numbers(row[name], name) for name in BOXES if row.get(name) is not None}
        if not {"target_bbox", "bbox"} & set(given):
            raise BadRow("box_malformed", "the row has no bbox")
        shown = next(given[name] for name in ("target_bbox", "bbox") if name in given)
        cell = self._picture(row)
        boxes = {name: clipped(box, self.pictures.size(cell)) for name, box in given.items()}
        meta = {"task_type": task, "gt_present": "no" if trap else "yes", "trap": self.note(row, "trap")}
        found = {name: box for name, box in boxes.items() if box is not None}
        return Entry(question.replace("[bbox]", written(shown)), answer, (cell,), family, found, meta)

    def gold(self, answer: str) -> str:
        return answer.strip()

    def _picture(self, row: Row) -> str:
        """The path of the picture, in the layout that the root has."""
        file, path = (str(self.value(row, role) or "") for role in ("image_file", "image_path"))
        tried = [name for name in (path, file, f"VG_100K/{file}", f"VG_100K_2/{file}", Path(path).name) if name]
        found = (name for name in tried if "\0" not in name and (self.pictures.root / name).is_file())
        return next(found, tried[0] if tried else "")


def fraction(image_id: object) -> float:
    """Place of a picture in 0..1, the same everywhere: its rows never cross parts."""
    return int(hashlib.md5(str(image_id).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF


def present(value: object) -> bool:
    """``gt_present`` in any of the ways it is written; True where it is missing."""
    return str(value).strip().lower() not in ("false", "no", "n", "0", "0.0")


def family_of(task: str, question: str) -> str:
    """The family of a task or family label; of the beginning of the question where there is none."""
    if task in ("counting", "attribute", "spatial", "presence", "other", *TASKS):
        return TASKS.get(task, task)
    if task:
        return next((family for family, parts in HINTS.items() if any(part in task for part in parts)), "other")
    match = (family for family, words in BEGINNINGS.items() if re.match(rf"\s*(?:{words})\b", question, re.IGNORECASE))
    return next(match, "other")


def numbers(value: object, name: str) -> tuple[float, float, float, float]:
    """Four numbers. Raises ``BadRow``."""
    try:
        x, y, w, h = (float(v) for v in value)  # type: ignore[attr-defined]
    except (TypeError, ValueError, OverflowError):
        raise BadRow("box_malformed", f"{name} must be four numbers x, y, w, h, this is {str(value)[:80]}") from None
    return x, y, w, h


def clipped(box: tuple[float, float, float, float], size: tuple[int, int]) -> Box | None:
    """The part of a box inside the picture; None if nothing is left."""
    x, y = (min(max(place, 0.0), float(side)) for place, side in zip(box[:2], size, strict=True))
    w, h = min(box[2], size[0] - x), min(box[3], size[1] - y)
    return Box(x, y, w, h) if w > 0 and h > 0 else None


def written(box: tuple[float, float, float, float]) -> str:
    """A box in a question: ``[x=8, y=8, w=20, h=20.5]``."""
    values = (f"{v:.0f}" if abs(v - round(v)) < 1e-6 else f"{v:.1f}" for v in box)
    return "[" + ", ".join(f"{name}={value}" for name, value in zip("xywh", values, strict=True)) + "]"
