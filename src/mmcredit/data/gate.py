"""The gate between a corpus and a run: every row is admitted, or dropped for a reason that is counted."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from mmcredit.types import UserError

log = logging.getLogger(__name__)
Row = TypeVar("Row")
EXAMPLES = 5  # places kept for each reason
POLICIES = ("raise", "skip")


class BadRow(ValueError):
    """Why a row cannot be used.

    Args:
        reason: short code, the key under which it is counted: ``image_truncated``, ``duplicate_id``, ...
        detail: one clause for the user, with what was found.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Outline:
    """What is checked of a sample before a run, known without decoding a picture. Sources that can say it for sample
    ``index`` have a method ``outline(index)``."""

    id: str
    question: str
    sizes: tuple[tuple[int, int], ...] = ()  # width and height of each picture, as the model will get it
    answer: str | None = None  # gold; None is not checked


@dataclass
class GateReport:
    """What a source held. ``columns`` says which field of the corpus was read as what."""

    source: str
    columns: dict[str, str] = field(default_factory=dict)
    read: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    kinds: Counter[str] = field(default_factory=Counter)  # of answers: number, letter, ...; filled by the source

    def drop(self, place: object, problem: BadRow) -> bool:
        """Count a bad row; whether its reason is rare so far, so that it is worth a line of its own."""
        self.dropped[problem.reason] += 1
        rare = len(self.examples[problem.reason]) < EXAMPLES
        if rare:
            self.examples[problem.reason].append(f"{place}: {problem}".strip())
        return rare


class Gate:
    """Admits the rows of one source.

    Args:
        name: of the source, for messages: a path, a dataset.
        on_bad_row: ``raise`` stops at the first bad row, ``skip`` counts, reports and goes on.
        report: goes on with this one, which has counted the rows already; default a new one.

    Raises:
        UserError: another ``on_bad_row``.
    """

    def __init__(self, name: str, on_bad_row: str = "raise", report: GateReport | None = None) -> None:
        if on_bad_row not in POLICIES:
            raise UserError(f"data.on_bad_row={on_bad_row!r} must be raise or skip")
        self.report, self.on_bad_row = report or GateReport(name), on_bad_row

    def admit(self, rows: Iterable[tuple[object, Callable[[], Row]]]) -> Iterator[Row]:
        """The rows that can be made, in order.

        Args:
            rows: the place of a row (its line, its index), and what makes it or raises ``BadRow``.

        Raises:
            UserError: a bad row under ``raise`` (source, place and reason).
        """
        for place, make in rows:
            self.report.read += 1
            try:
                row = make()
            except BadRow as problem:
                self.drop(place, problem)
                continue
            self.report.kept += 1
            yield row
        if self.report.dropped:
            log.warning("%s: %d rows kept, %d skipped", self.report.source, self.report.kept,
                        self.report.dropped.total())  # fmt: skip

    def drop(self, place: object, problem: BadRow) -> None:
        """Count a row that cannot be used.

        Raises:
            UserError: under ``raise``.
        """
        where = f"{self.report.source}:{place}"
        if self.on_bad_row == "raise":
            raise UserError(f"{where}: {problem} (data.on_bad_row=skip leaves such rows out)") from None
        if self.report.drop(place, problem):
            log.warning("%s skipped: %s", where, problem)
