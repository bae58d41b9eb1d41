"""COCO instances as questions with evidence boxes, made when the source is built.

COCO says nothing of colour, material or state: the attribute family is of kinds and sizes. ``mmcredit.prepare
coco_evidence`` writes the same questions to files, with a report.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from mmcredit.data.coco.construct import Recipe, constructed
from mmcredit.data.coco.pictures import open_stored
from mmcredit.data.coco.question import SPLITS
from mmcredit.data.gate import GateReport, Outline
from mmcredit.data.source import Info
from mmcredit.types import Sample, UserError


class Coco:
    """Map-style source of constructed questions. Pictures are opened as stored when a sample is asked for.

    Args:
        instances: an ``instances_*.json``.
        images: folder of its pictures.
        questions: which questions are made.
        split: ``train``, ``val``, ``probe`` or ``all``: whole pictures, by a hash of their id.
        on_bad_row: ``raise`` at the first malformed entry of the file, or ``skip``.

    Raises:
        UserError: missing file or folder, unknown split, no question.
    """

    def __init__(
        self,
        instances: str | Path | None,
        images: str | Path | None,
        questions: Recipe,
        split: str = "all",
        on_bad_row: str = "skip",
    ) -> None:
        if instances is None or images is None:
            raise UserError("type data.instances=/path/to/instances_val2017.json data.images=/path/to/val2017")
        if split not in (*SPLITS, "all"):
            raise UserError(f"data split {split!r} does not exist; there are {', '.join(SPLITS)} and all")
        self.images = Path(images).expanduser()
        made = constructed(Path(instances).expanduser(), self.images, questions, on_bad_row)
        self.questions = [q for q in made.questions if split in (q.split, "all")]
        kinds = Counter(q.draft.kind for q in self.questions)
        self.report = GateReport(f"{instances} ({split})", read=len(self), kept=len(self), kinds=kinds)

    def __len__(self) -> int:
        return len(self.questions)

    def info(self, index: int) -> Info:
        """What samplers ask, without a picture."""
        q = self.questions[index]
        return Info(q.family, boxed=q.proposal is not None)

    def outline(self, index: int) -> Outline:
        """What the length of the prompt depends on."""
        q = self.questions[index]
        return Outline(q.uid, q.draft.question, ((q.picture.width, q.picture.height),))

    def __getitem__(self, index: int) -> Sample:
        q = self.questions[index]
        meta = {"task_type": q.task, "template_id": q.draft.template, "image_id": str(q.picture.id)}
        meta |= {"gt_present": "yes" if q.draft.things else "no"}
        pictures = (open_stored(self.images, q.picture),)
        return Sample(q.uid, pictures, q.draft.question, q.draft.answer, q.family, q.draft.boxes, q.proposal, meta=meta)
