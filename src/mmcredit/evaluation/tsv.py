"""Benchmarks in VLMEvalKit's files, with the rows and the question that its kit would use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmcredit.data.sources.entries import Entry, LeftOut
from mmcredit.data.sources.rows import Row
from mmcredit.data.sources.vlmeval_tsv import VLMEvalTSV
from mmcredit.types import UserError


class BenchmarkTSV(VLMEvalTSV):
    """A benchmark's file. Rows that cannot be used end the evaluation: numbers over fewer questions would compare with
    nothing.

    Args:
        path: the file.
        root: folder of the pictures that it names; default its own.
        text_only: keep rows without a picture, too; VLMEvalKit leaves them out.
        question: column with the question; null: the usual one.
        answer: column with the gold answer; null: the usual one.
        fixed_question: asked instead and without options, where the pictures hold them (GSM8K-V, MMMU-Pro).
        pictures: false leaves the pictures out (the text-only form of a benchmark).
        only: column -> value of the rows that count.

    Raises:
        UserError: no such file, or a row that cannot be used (file, row and reason).
    """

    def __init__(
        self,
        path: str | Path,
        root: str | Path | None = None,
        text_only: bool = False,
        question: str | None = None,
        answer: str | None = None,
        fixed_question: str | None = None,
        pictures: bool = True,
        only: Mapping[str, str] | None = None,
    ) -> None:
        file = Path(path).expanduser()
        if not file.is_file():
            raise UserError(f"benchmark.path={path} does not exist: name the benchmark's TSV file (see its yaml)")
        named = {"question": (question,) if question else (), "answer": (answer,) if answer else ()}
        roles = {**VLMEvalTSV.roles, **{role: names for role, names in named.items() if names}}
        required = ("answer", "id") if fixed_question is not None else VLMEvalTSV.required
        self.roles, self.required = roles, required  # type: ignore[misc, assignment]
        self.text_only, self.fixed_question, self.with_pictures = text_only, fixed_question, pictures
        self.only = dict(only or {})
        super().__init__(file, root)

    def text(self, row: Row, role: str) -> str:
        if role == "question" and self.fixed_question is not None:
            return self.fixed_question
        return super().text(row, role)

    def images(self, row: Row) -> tuple[Any, ...]:
        return super().images(row) if self.with_pictures else ()

    def entry(self, row: Row, turn: int) -> Entry:
        if any(row.get(column) != value for column, value in self.only.items()):
            raise LeftOut("other_part", "the row is of another part of the benchmark (benchmark.source.only)")
        entry = super().entry(row, turn)
        if not entry.images and self.with_pictures and not self.text_only:
            raise LeftOut("no_image", "the row has no picture (benchmark.source.text_only=true keeps it)")
        if self.fixed_question is not None:
            entry = replace(entry, question=self.fixed_question)
        choices = {} if self.options(row) else {"choices": row.get("choices")}  # a list literal (MathVista, MathVision)
        return replace(entry, meta={**entry.meta, **self.options(row), **choices})
