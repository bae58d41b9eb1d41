"""What became of an instances file: counts, balances, and a sheet of pictures with their boxes drawn."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from mmcredit.data.coco.construct import Constructed
from mmcredit.data.coco.pictures import open_stored
from mmcredit.data.coco.question import SPLITS, Question
from mmcredit.scoring.regions import Grid, reference_box
from mmcredit.types import Box, Sample

AREAS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.35, 0.5)  # ends of the histogram's bins, shares of the picture
ANSWERS = 10  # of each task in the report
REFERENCES = 3  # CED's K
TILE, CAPTION, COLUMNS = 320, 64, 4  # pixels, pixels, tiles
PROPOSAL, OTHER, REFERENCE = "red", "gold", "deepskyblue"


def report(made: Constructed) -> dict[str, Any]:
    """Everything as plain numbers."""
    questions = made.questions
    families = {
        f: dict(Counter(q.split for q in questions if q.family == f)) for f in _names(q.family for q in questions)
    }
    tasks = {name: dict(sorted(outcomes.items())) for name, outcomes in made.outcomes.items()}
    answers = {}
    for task in tasks:
        counts = Counter(q.draft.answer for q in questions if q.task == task)
        answers[task] = dict(counts.most_common(ANSWERS)) | {"different": len(counts)}
    gates = {gate.source.rpartition(": ")[2]: {"read": gate.read, "kept": gate.kept, "dropped": dict(gate.dropped),
             "examples": dict(gate.examples)} for gate in made.gates}  # fmt: skip
    boxed = [q for q in questions if q.proposal is not None]
    return {
        "questions": len(questions), "entries": gates, "pictures": dict(made.pictures), "families": families,
        "tasks": tasks, "answers": answers, "area": histogram([q.area_fraction or 0.0 for q in boxed]),
        "references_found": round(sum(map(measurable, boxed)) / len(boxed), 4) if boxed else None,
    }  # fmt: skip


def measurable(question: Question) -> bool:
    """Whether CED finds all its reference boxes in 24 tries each."""
    picture, sample = question.picture, Sample(question.uid, (), "", "", proposal_bbox=question.proposal)
    grid = Grid(1, 1, 1, picture.width, picture.height)
    return all(reference_box(sample, grid, i) is not None for i in range(REFERENCES))


def histogram(areas: Sequence[float]) -> dict[str, int]:
    """Proposal boxes by their share of the picture."""
    bins = pairwise([0.0, *AREAS, 1.0])
    return {f"{low:g}..{high:g}": sum(low <= area < high for area in areas) for low, high in bins}


def table(found: Mapping[str, Any]) -> str:
    """The report on the screen."""
    lines = [f"{'family':12s} " + " ".join(f"{split:>7s}" for split in SPLITS)]
    for family, counts in found["families"].items():
        lines.append(f"{family:12s} " + " ".join(f"{counts.get(split, 0):7d}" for split in SPLITS))
    lines.append(f"{'task':16s} {'kept':>7s}  not kept")
    for task, outcomes in found["tasks"].items():
        why = ", ".join(f"{reason} {count}" for reason, count in outcomes.items() if reason != "kept")
        lines.append(f"{task:16s} {outcomes.get('kept', 0):7d}  {why}".rstrip())
        answers = [f"{a} {n}" for a, n in found["answers"][task].items() if a != "different"]
        lines.append(f"{'':16s} answers: {', '.join(answers)} ({found['answers'][task]['different']} different)")
    lines.append("evidence box, share of the picture")
    most = max([*found["area"].values(), 1])
    lines += [f"{name:>12s} {count:7d} {'#' * round(40 * count / most)}" for name, count in found["area"].items()]
    pictures = ", ".join(f"{why} {count}" for why, count in found["pictures"].items())
    lines.append(f"pictures with annotations: {pictures}")
    for name, gate in found["entries"].items():
        why = ", ".join(f"{reason} {count}" for reason, count in gate["dropped"].items())
        lines.append(f"{name}: {gate['kept']} of {gate['read']} entries used{f' ({why})' if why else ''}")
    lines.append(
        f"{found['questions']} questions; CED finds {REFERENCES} reference boxes for {found['references_found']}"
    )
    return "\n".join(lines)


def contact_sheet(questions: Sequence[Question], images: Path, path: Path) -> None:
    """Questions with their pictures: the proposal box red, others yellow, CED's first reference box blue."""
    rows = -(-len(questions) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * TILE, max(rows, 1) * (TILE + CAPTION)), "white")
    for n, question in enumerate(questions):
        row, column = divmod(n, COLUMNS)
        sheet.paste(_tile(question, images), (column * TILE, row * (TILE + CAPTION)))
    aside = path.with_name(path.name + ".new")
    sheet.save(aside, "PNG")
    aside.replace(path)


def _tile(question: Question, images: Path) -> Image.Image:
    tile = Image.new("RGB", (TILE, TILE + CAPTION), "white")
    picture = open_stored(images, question.picture)
    scale = TILE / max(picture.size)
    small = picture.resize((max(1, round(picture.width * scale)), max(1, round(picture.height * scale))))
    draw = ImageDraw.Draw(small)
    sample = Sample(question.uid, (), "", "", proposal_bbox=question.proposal)
    boxes = [(box, OTHER) for box in question.draft.boxes]
    if question.proposal is not None:
        reference = reference_box(sample, Grid(1, 1, 1, picture.width, picture.height), 0)
        boxes += [(reference, REFERENCE)] if reference else []
        boxes.append((question.proposal, PROPOSAL))
    for box, colour in boxes:
        draw.rectangle(_corners(box, scale), outline=colour, width=2)
    tile.paste(small, (0, 0))
    text = textwrap.wrap(f"{question.task}: {question.draft.question} {question.draft.answer}", 52)[:4]
    ImageDraw.Draw(tile).text((4, TILE + 2), "\n".join(text), fill="black", font=ImageFont.load_default(11))
    return tile


def _corners(box: Box, scale: float) -> tuple[float, float, float, float]:
    x, y = box.x * scale, box.y * scale
    return x, y, max(x, (box.x + box.w) * scale - 1), max(y, (box.y + box.h) * scale - 1)


def _names(values: Any) -> list[str]:
    return sorted(set(values))


def plain(value: Any) -> Any:
    """As JSON gives it back."""
    if isinstance(value, Mapping):
        return {str(key): plain(v) for key, v in value.items()}
    return list(map(plain, value)) if isinstance(value, list | tuple) else value
