"""MMK12 (https://huggingface.co/datasets/FanqingM/MMK12): K12 questions with one picture each; train free-form
(``$$6$$``), test letters. Also MM-Eureka's ``k12.json`` with ``image_path``."""

from __future__ import annotations

from mmcredit.data.sources.entries import Entry
from mmcredit.data.sources.golds import unboxed, undollared
from mmcredit.data.sources.rows import Row
from mmcredit.data.sources.table import Table


class Mmk12(Table):
    """See ``Table``; the subject is the family."""

    roles = {
        "images": ("image", "images", "image_path"),
        "question": ("question", "problem"),
        "answer": ("answer",),
        "id": ("id",),
        "subject": ("subject",),
    }

    def entry(self, row: Row, turn: int) -> Entry:
        family = self.note(row, "subject") or ""
        return Entry(self.text(row, "question"), self.text(row, "answer"), self.images(row), family)

    def gold(self, answer: str) -> str:
        return undollared(unboxed(undollared(answer)))
