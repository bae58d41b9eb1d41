"""Rows of an evaluation on disk: appended a batch at a time, never lost, never half-read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmcredit.evaluation.table import Question
from mmcredit.files import pin
from mmcredit.types import UserError


@dataclass(frozen=True, slots=True)
class Prediction:
    """A sampled response."""

    id: str  # of the question
    k: int  # number of the response, 0-based
    prediction: str
    tokens: int  # end token included
    finished: bool  # False: cut off by the length limit


class Rows:
    """A file of one JSON object a line, to which whole lines are added.

    A last line that was cut off while it was written (a kill, a full disk) is removed when the file is opened.

    Raises:
        UserError: another line is damaged (file and line).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        self.rows: list[dict[str, Any]] = []
        for number, line in enumerate(whole.split(b"\n")[:-1], 1):
            try:
                self.rows.append(json.loads(line))
            except ValueError:
                raise UserError(f"{path}:{number} is damaged: delete the file to do it again") from None
        if len(whole) < len(data):
            with path.open("r+b") as file:
                file.truncate(len(whole))

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append, and be sure that it is on disk."""
        new = [dict(row) for row in rows]
        with self.path.open("ab") as file:
            file.write("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in new).encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
        self.rows += new


class Folder:
    """Questions and predictions of one evaluation.

    Args:
        path: made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._questions, self._predictions = Rows(path / "questions.jsonl"), Rows(path / "predictions.jsonl")
        self.questions = [Question(**row) for row in self._questions.rows]
        self.predictions = {(row["id"], row["k"]): Prediction(**row) for row in self._predictions.rows}

    def pin(self, settings: Mapping[str, Any]) -> None:
        """Keep what decides the predictions; a later run must have the same.

        Raises:
            UserError: it has others.
        """
        pin(self.path / "settings.json", settings, "out")

    @property
    def settings(self) -> dict[str, Any]:
        """What was pinned; empty before."""
        path = self.path / "settings.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else {}

    def add(self, start: int, questions: Sequence[Question], predictions: Sequence[Prediction]) -> None:
        """Keep a batch; what is there already must be the same questions, and predictions stay.

        Args:
            start: place of the first question in the benchmark.

        Raises:
            UserError: the benchmark's data changed since the folder was begun, or two questions share an id.
        """
        known = self.questions[start : start + len(questions)]
        if known != list(questions[: len(known)]):
            raise UserError(f"the benchmark's data are not those that {self.path} was begun with; use another out=...")
        new = questions[len(known) :]
        ids = {q.id for q in self.questions}
        for question in new:
            if question.id in ids:
                raise UserError(f"two questions have the id {question.id!r}; ids must be unique, grades go by them")
            ids.add(question.id)
        self._questions.add({"id": q.id, "question": q.question, "answer": q.answer, "meta": dict(q.meta)} for q in new)
        self.questions += new
        fresh = [p for p in predictions if (p.id, p.k) not in self.predictions]
        self._predictions.add({name: getattr(p, name) for name in Prediction.__slots__} for p in fresh)
        self.predictions |= {(p.id, p.k): p for p in fresh}

    def missing(self, start: int, stop: int, k: int) -> bool:
        """Whether a response to one of the questions from ``start`` to ``stop`` is not there."""
        known = self.questions[start:stop]
        return len(known) < stop - start or any((q.id, n) not in self.predictions for q in known for n in range(k))
