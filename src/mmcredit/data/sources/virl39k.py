"""ViRL39K (https://huggingface.co/datasets/TIGER-Lab/ViRL39K): 38,870 questions, MIT.

One parquet file; pictures are paths in a *list* under the singular key ``image``, in ``images/`` or a zip beside it;
all answers are boxed; some rows are text only. ``PassRate_7BBase`` was measured for about half of the rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmcredit.data.sources.entries import Entry, LeftOut, choose
from mmcredit.data.sources.golds import rate
from mmcredit.data.sources.rows import Row, Rows, fetch, load
from mmcredit.data.sources.table import Table


class Virl39k(Table):
    """See ``Table``; rows have ``pass_rate`` (of ``pass_rate``), ``source`` in ``meta``, and a category as family.

    Args:
        pass_rate: column of the difficulty: ``PassRate_7BBase`` or ``PassRate_32BTrained``.
        text_only: ``keep`` or ``drop`` rows without a picture.
    """

    roles = {
        "images": ("image", "images"),
        "question": ("question", "problem"),
        "answer": ("answer",),
        "id": ("qid", "id"),
        "category": ("category",),
        "source": ("source",),
        "PassRate_7BBase": ("PassRate_7BBase",),
        "PassRate_32BTrained": ("PassRate_32BTrained",),
    }

    def __init__(
        self, path: str | Path | None, pass_rate: str = "PassRate_7BBase", text_only: str = "keep", **options: Any
    ) -> None:
        choose("data.pass_rate", pass_rate, ("PassRate_7BBase", "PassRate_32BTrained"))
        choose("data.text_only", text_only, ("keep", "drop"))
        self.pass_rate, self.text_only = pass_rate, text_only
        super().__init__(path, **options)

    def read(self) -> Rows:
        self.folder = fetch(self.path, self.revision)
        return Rows(load(self.folder, self.split, self.config))

    def home(self) -> Path:
        return self.folder if self.folder.is_dir() else self.folder.parent

    def entry(self, row: Row, turn: int) -> Entry:
        images = self.images(row)
        if not images and self.text_only == "drop":
            raise LeftOut("text_only", "the row has no picture (data.text_only)")
        meta = {"pass_rate": rate(self.value(row, self.pass_rate)), "source": self.note(row, "source")}
        family = self.note(row, "category") or ""
        return Entry(self.text(row, "question"), self.text(row, "answer"), images, family, meta=meta)
