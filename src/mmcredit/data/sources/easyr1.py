"""Data sets in EasyR1's format: ``images``, ``problem``, ``answer``. Geometry3K (hiyouga/geometry3k), the copies of
ViRL39K that PAPO and VPPO train on, clevr_count_70k, and others.

Text-only rows have an empty list of images. Geometry3K's ``answer`` is the text of a choice, ``ground_truth`` its
letter; elsewhere ``ground_truth`` may be the answer itself.
"""

from __future__ import annotations

from mmcredit.data.sources.entries import Entry
from mmcredit.data.sources.golds import letter, rate
from mmcredit.data.sources.rows import Row
from mmcredit.data.sources.table import Table


class EasyR1(Table):
    """See ``Table``; ``meta`` has the ``choices`` (one a line), the right ``letter``, ``source`` and ``pass_rate``."""

    roles = {
        "images": ("images", "image"),
        "question": ("problem", "question", "prompt"),
        "answer": ("answer", "ground_truth", "solution"),
        "id": ("id", "qid"),
        "choices": ("choices", "options"),
        "letter": ("ground_truth",),
        "category": ("category", "family"),
        "source": ("source", "data_source"),
        "pass_rate": ("pass_rate", "PassRate_7BBase"),
    }

    def entry(self, row: Row, turn: int) -> Entry:
        listed = self.note(row, "choices")
        choices = listed.split("\n") if listed else []
        meta = {
            "choices": listed,
            "letter": letter(self.value(row, "letter"), choices) if choices else None,
            "source": self.note(row, "source"),
            "pass_rate": rate(self.value(row, "pass_rate")),
        }
        family = self.note(row, "category") or ""
        return Entry(self.text(row, "question"), self.text(row, "answer"), self.images(row), family, meta=meta)
