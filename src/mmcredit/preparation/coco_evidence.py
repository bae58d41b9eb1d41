"""Questions with evidence boxes from an ``instances_*.json``, as files that ``data=jsonl`` reads, with a report.

``train.jsonl``, ``val.jsonl`` and ``probe.jsonl`` share no picture. Pictures are linked into ``images/`` (copied where
the file system has no hard links), so that the folder is whole; one with an orientation tag is written again without
it, because COCO's boxes are on the pixels as stored. Interrupted, the same command goes on: pictures that are there
stay, and files are complete or not there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mmcredit.data.coco.construct import Recipe, construct
from mmcredit.data.coco.pictures import check, open_stored, place_of
from mmcredit.data.coco.question import SPLITS, Question
from mmcredit.data.coco.scene import Picture
from mmcredit.data.images import ImageError
from mmcredit.files import pin, write_json
from mmcredit.preparation import coco_report as said
from mmcredit.preparation.files import write_rows
from mmcredit.types import UserError


def run(
    instances: str | None, images: str | None, out: str, questions: Recipe, on_bad_row: str = "skip", shown: int = 24
) -> dict[str, Any]:
    """Construct, link, write; returns the report.

    Args:
        instances: the annotations.
        images: folder of the pictures.
        out: output folder.
        questions: which questions are made.
        on_bad_row: ``skip`` or ``raise`` at malformed entries of the file.
        shown: questions on the contact sheet.

    Raises:
        UserError: a file or folder that is missing or no COCO, a folder begun with other settings, no question.
    """
    if instances is None or images is None:
        raise UserError("type instances=/path/to/instances_val2017.json images=/path/to/val2017")
    source, pictures, folder = (Path(name).expanduser() for name in (instances, images, out))
    if not source.is_file():
        raise UserError(f"instances={instances} does not exist or is not a file")
    began = time.perf_counter()
    made = construct(source, pictures, questions, on_bad_row)
    seconds = {"questions": time.perf_counter() - began}
    folder.mkdir(parents=True, exist_ok=True)
    pin(folder / "settings.json", settings(source, questions), "job.out")
    names = {q.picture.id: q.picture for q in made.questions}
    kept = {key: export(pictures, picture, folder) for key, picture in names.items()}
    for split in SPLITS:
        rows = (q.row(kept[q.picture.id]) for q in made.questions if q.split == split)
        write_rows(folder / f"{split}.jsonl", rows)
    seconds["all"] = time.perf_counter() - began
    report = said.report(made) | {"seconds": {key: round(value, 1) for key, value in seconds.items()}}
    write_json(report, folder / "report.json")
    said.contact_sheet(chosen(made.questions, shown), pictures, folder / "contact_sheet.png")
    print(said.table(report))
    print(f"{folder / 'report.json'} {folder / 'contact_sheet.png'}")
    print(f"python -m mmcredit.fit data=jsonl data.path={folder}/train.jsonl data.val.val.path={folder}/val.jsonl "
          "data.val.val.part=all data/sampler=balanced_no_replacement")  # fmt: skip
    return report


def settings(source: Path, questions: Recipe) -> dict[str, Any]:
    """What decides the rows."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "md5").hexdigest()
    recipe = {key: value for key, value in vars(questions).items() if key not in ("tasks", "fitness")}
    tasks = {name: {key: getattr(v, "__name__", v) for key, v in vars(task).items()}
             for name, task in questions.tasks.items()}  # fmt: skip
    plain = {"instances_md5": digest, "fitness": asdict(questions.fitness), "tasks": tasks, **recipe}
    return {key: said.plain(value) for key, value in plain.items()}


def export(images: Path, picture: Picture, folder: Path) -> str:
    """Put a picture into the folder; the name that rows use.

    Raises:
        UserError: it cannot be read any more.
    """
    try:
        path = place_of(images, picture)
        stem = picture.id if isinstance(picture.id, int) else hashlib.md5(picture.id.encode()).hexdigest()
        name = f"images/{stem}{path.suffix.lower()}"
        if check(images, picture).orientation == 1:
            place(path, folder / name)
            return name
        name = f"images/{stem}.stored.png"
        if not (folder / name).exists():
            (folder / name).parent.mkdir(exist_ok=True)
            aside = folder / f"{name}.new"
            open_stored(images, picture).save(aside, "PNG")
            aside.replace(folder / name)
        return name
    except (ImageError, OSError) as problem:
        raise UserError(f"{problem} ({picture.file_name})") from None


def place(path: Path, target: Path) -> None:
    """A hard link, or a copy where there can be none; what is there stays."""
    if target.exists():
        return
    target.parent.mkdir(exist_ok=True)
    try:
        os.link(path, target)
    except OSError:
        aside = target.with_name(target.name + ".new")
        shutil.copyfile(path, aside)
        aside.replace(target)


def chosen(questions: tuple[Question, ...], count: int) -> list[Question]:
    """Questions for the contact sheet: tasks take turns, in the order of a hash."""
    turns: dict[str, list[Question]] = {}
    for question in sorted(questions, key=lambda q: hashlib.md5(q.uid.encode()).digest()):
        turns.setdefault(question.task, []).append(question)
    ranked = [(n, task, q) for task, found in turns.items() for n, q in enumerate(found)]
    return [q for _, _, q in sorted(ranked, key=lambda turn: turn[:2])[:count]]
