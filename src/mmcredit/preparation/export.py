"""A sample as a row of ``data=jsonl``, its pictures beside the file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from mmcredit.data.sources.fields import CONTROL
from mmcredit.data.sources.jsonl import BOX_FIELDS
from mmcredit.preparation.files import Row
from mmcredit.types import Box, Sample


def exported(sample: Sample, index: int, row: Row, folder: Path) -> Row:
    """The row that ``mmcredit.data.sources.jsonl`` reads, with a judge's material; saves the pictures.

    Args:
        row: ``reference``, ``pseudo_ground_truth``, ``key_facts``, ``correct``.
    """
    found = question_row(sample, index, folder)
    found |= {key: _plain(row[key]) for key in ("reference", "pseudo_ground_truth")}
    found["key_facts"] = list(filter(None, map(_plain, row["key_facts"])))
    found["accuracy"] = sum(row["correct"]) / len(row["correct"])
    return {key: value for key, value in found.items() if value not in ([], "")}


def question_row(sample: Sample, index: int, folder: Path) -> Row:
    """The row of the question alone; saves the pictures as ``images/<index>_<number>.png``."""
    (folder / "images").mkdir(exist_ok=True)
    names = [f"images/{index:06d}_{number}.png" for number in range(len(sample.images))]
    for name, picture in zip(names, sample.images, strict=True):
        picture.save(folder / name)
    found: Row = {"id": sample.id, "images": names, "question": sample.question, "answer": sample.answer}
    found |= {"family": sample.family, "boxes": list(map(_numbers, sample.boxes))}
    found |= {key: _numbers(box) for key in BOX_FIELDS if (box := getattr(sample, key)) is not None}
    found["objects"] = [asdict(thing) | {"box": _numbers(thing.box)} for thing in sample.objects]
    return {key: value for key, value in found.items() if value not in ([], "")}


def _plain(text: str) -> str:
    """Without control tokens, which the source refuses."""
    return CONTROL.sub(" ", text).strip()


def _numbers(box: Box) -> list[float]:
    return [box.x, box.y, box.w, box.h]
