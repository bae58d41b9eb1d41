"""What the corpora share: rows, columns by whatever name, checks, and samples with pictures decoded when asked for."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from mmcredit.data.answers import Kind, answer_kind
from mmcredit.data.gate import BadRow, Outline
from mmcredit.data.placeholders import in_order
from mmcredit.data.source import Info, described
from mmcredit.data.sources.entries import LEADING, Entry, LeftOut, Place, Roles, RowGate, columns
from mmcredit.data.sources.fields import text
from mmcredit.data.sources.golds import unboxed
from mmcredit.data.sources.parts import PARTS, check_part, part_of
from mmcredit.data.sources.pictures import Pictures
from mmcredit.data.sources.rows import Row, Rows, load, local
from mmcredit.types import Sample

log = logging.getLogger(__name__)


class Table:
    """Map-style source over the rows of a corpus. Every row is checked when the source is built: text, markers, gold
    answer, and each picture in full when it is met for the first time. Pictures are decoded when a sample is asked for.

    Args:
        path: a file, a folder of shards, a folder that ``datasets`` saved, or a hub name (``owner/name``).
        root: folder that picture paths are relative to and may not leave; default the folder of ``path``.
        on_bad_row: ``raise`` stops at the first bad row, ``skip`` counts and reports them.
        part: one of ``parts``; rows are split by a hash of their id.
        val_share: share of rows that belong to ``val``.
        split: of the corpus.
        config: subset of the corpus; of a local folder, the subfolder.
        revision: of a hub data set.

    Raises:
        UserError: nothing to read, unknown option, no column for a field, or a bad row under ``raise``.
    """

    roles: ClassVar[Roles]
    required: ClassVar[tuple[str, ...]] = ("question", "answer", "images")
    parts: ClassVar[tuple[str, ...]] = PARTS
    compared: bool = True  # whether a gold answer that the verifier cannot compare is a bad row
    exif: ClassVar[bool] = True  # pictures are turned upright
    repeats: ClassVar[bool] = False  # whether a row that says the same as an earlier one counts

    def __init__(
        self,
        path: str | Path | None,
        root: str | Path | None = None,
        on_bad_row: str = "raise",
        part: str = "all",
        val_share: float = 0.0,
        split: str = "train",
        config: str | None = None,
        revision: str | None = None,
    ) -> None:
        if path is None:
            local(path, "/path/to/folder, or its hub name")
        check_part(part, val_share, self.parts)
        self.path, self.part, self.val_share = str(path), part, val_share
        self.split, self.config, self.revision = split, config, revision
        gate = RowGate(self.path, on_bad_row)
        self.report = gate.report
        self.rows = self.read()
        self.pictures = Pictures(Path(root).expanduser() if root else self.home(), self.exif)
        self.columns = columns(self.rows.names, self.roles, self.required, self.path)
        self.report.columns.update(self.columns)
        log.info("%s: %s", path, ", ".join(f"{role} = {name}" for role, name in self.columns.items()))
        self._seen: dict[str, Place] = {}
        with self.pictures.checking():
            self.kept = list(gate.admit(self._given()))
        self._seen.clear()

    # What a corpus says

    def entry(self, row: Row, turn: int) -> Entry:
        """Question ``turn`` of the row; ``BadRow`` where it cannot be used, ``LeftOut`` where it shall not."""
        raise NotImplementedError

    def turns(self, row: Row) -> int:
        """How many questions a row holds."""
        return 1

    def read(self) -> Rows:
        """All rows."""
        return Rows(load(self.path, self.split, self.config, self.revision))

    def home(self) -> Path:
        """The folder that picture paths are relative to."""
        place = Path(self.path).expanduser()
        return place if place.is_dir() else place.parent

    def name(self, row: Row, index: int) -> str:
        """What the corpus calls the row."""
        given = self.value(row, "id")
        return str(given) if given is not None else f"{Path(self.path).name}:{index}"

    def part_of(self, row: Row, index: int) -> str:
        """The part that a row belongs to."""
        return part_of(self.name(row, index), self.val_share)

    def gold(self, answer: str) -> str:
        """The gold answer in the text of the corpus."""
        return unboxed(answer)

    # What a row holds

    def value(self, row: Row, role: str) -> Any:
        """A field as it is; None where there is no such column, nothing, or NaN."""
        value = row.get(self.columns.get(role, ""))
        return None if isinstance(value, float) and math.isnan(value) else value

    def text(self, row: Row, role: str) -> str:
        """A field that must be there, as text without control tokens."""
        return text({role: self.value(row, role)}, role)

    def note(self, row: Row, role: str) -> str | None:
        """A field that may be missing, as text; of a list one entry a line."""
        value = self.value(row, role)
        if isinstance(value, list):
            return "\n".join(" ".join(str(v).split()) for v in value if v is not None) or None
        return str(value).strip() or None if value is not None else None

    def images(self, row: Row) -> tuple[Any, ...]:
        """The picture cells of a row, whether its column holds one or a list (also under a singular name)."""
        cells = self.value(row, "images")
        return tuple(cells) if isinstance(cells, list) else () if cells in (None, "") else (cells,)

    # What is made of it

    def __len__(self) -> int:
        return len(self.kept)

    def __getitem__(self, index: int) -> Sample:
        place = self.kept[index]
        sample, cells = self._made(self.rows[place.row], place.turn, place.id)
        return replace(sample, images=tuple(self.pictures.open(cell) for cell in cells))

    def bare(self, index: int) -> Sample:
        """A sample without its pictures, to choose and to count by."""
        place = self.kept[index]
        return self._made(self.rows[place.row], place.turn, place.id)[0]

    def info(self, index: int) -> Info:
        """What samplers ask."""
        return described(self.bare(index), bool(self.kept[index].sizes))

    def outline(self, index: int) -> Outline:
        """What the length of the prompt depends on."""
        place = self.kept[index]
        return Outline(place.id, place.question, place.sizes)

    def _given(self) -> Iterator[tuple[object, partial[Place]]]:
        if self.part == "val" and not self.val_share:
            return
        for index in range(len(self.rows)):
            row = self.rows[index]
            if self.part in ("all", self.part_of(row, index)):
                for turn in range(self.turns(row)):
                    yield index, partial(self._admitted, row, index, turn)

    def _admitted(self, row: Row, index: int, turn: int) -> Place:
        """The checked place. An id that another question has already is completed by the place of the row."""
        name = self.name(row, index) + (f"#{turn}" if turn else "")
        sample, cells = self._made(row, turn, name)
        place = Place(index, turn, name, sample.question, tuple(self.pictures.size(cell) for cell in cells))
        if (kind := answer_kind(sample.answer)) is Kind.UNPARSABLE and self.compared:
            raise BadRow("gold_unparsable", f"nothing can be compared with the answer {sample.answer[:80]!r}")
        if (earlier := self._seen.setdefault(name, place)) is not place:
            other, others = self._made(self.rows[earlier.row], earlier.turn, name)
            if not self.repeats and other == sample and self._bytes(others) == self._bytes(cells):
                raise LeftOut("duplicate_row", f"id {name!r} repeats an earlier row")
            place = replace(place, id=f"{name}@{index}")
        self.report.kinds[kind] += 1
        return place

    def _bytes(self, cells: Sequence[Any]) -> list[bytes]:
        return [self.pictures.encoded(cell) for cell in cells]

    def _made(self, row: Row, turn: int, name: str) -> tuple[Sample, tuple[Any, ...]]:
        """The sample without pictures, and their cells."""
        entry = self.entry(row, turn)
        answer = self.gold(entry.answer)
        question, cells = in_order(entry.question, entry.images)
        question = LEADING.sub("", question)
        question, answer = text({"question": question}, "question"), text({"answer": answer}, "answer")
        meta = {key: value for key, value in {"gold": entry.answer, **entry.meta}.items() if value}
        boxes = tuple(entry.boxes.values())[:1]
        return Sample(name, (), question, answer, entry.family, boxes, meta=meta, **entry.boxes), cells
