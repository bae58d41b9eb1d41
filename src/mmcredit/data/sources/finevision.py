"""FineVision (https://huggingface.co/datasets/HuggingFaceM4/FineVision): 24 million rows in 185 subsets, 5 TB.

A subset is streamed until ``take`` rows were admitted; these are kept in a local Arrow file, so that the source is
map-style, resumable, and never holds more than a few rows in memory. A row has 0..n pictures and several turns, each
rated 1..5 for relevance, image_correspondence, formatting and visual_dependency.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from mmcredit.data.gate import BadRow
from mmcredit.data.sources.entries import Entry, LeftOut, RowGate, choose, columns
from mmcredit.data.sources.pictures import Pictures
from mmcredit.data.sources.rows import Row, Rows, batches, is_hub_name, load, local
from mmcredit.data.sources.table import Table
from mmcredit.functional import stable_seed
from mmcredit.types import UserError

RATINGS = ("relevance", "image_correspondence", "formatting", "visual_dependency")
LAYOUT = 1  # of the kept file; another number makes it anew
_PICTURE = pa.struct([("bytes", pa.large_binary()), ("path", pa.string())])
_RATED = [(f"{name}_ratings", pa.list_(pa.int64())) for name in RATINGS] + [(f"{n}_min", pa.int64()) for n in RATINGS]
SCHEMA = pa.schema(
    [
        ("id", pa.string()), ("source", pa.string()), ("images", pa.list_(_PICTURE)),
        ("texts", pa.list_(pa.struct([("user", pa.string()), ("assistant", pa.string())]))), *_RATED,
    ]
)  # fmt: skip


class FineVision(Table):
    """See ``Table``. The answer is free text: short ones are kept, and what the verifier can compare.

    Args:
        take: rows admitted of each subset.
        configs: subsets, e.g. ``[ai2d, clevr]``; of a local path, its subfolders.
        turns: ``first`` turn of a row, or ``all``: each is a sample (later ones may refer to earlier ones).
        ratings: smallest rating by kind, e.g. ``{relevance: 4}``; turns below it are left out.
        longest_answer: characters.
        cache: folder of the kept rows; default the cache of ``datasets``.
    """

    roles = {name: (name,) for name in ("texts", "images", "source", "id", *(name for name, _ in _RATED))}
    required = ("texts", "images")

    def __init__(
        self,
        path: str | Path | None,
        take: int = 1000,
        configs: Sequence[str] | None = None,
        turns: str = "first",
        ratings: Mapping[str, int] | None = None,
        longest_answer: int = 100,
        cache: str | Path | None = None,
        **options: Any,
    ) -> None:
        choose("data.turns", turns, ("first", "all"))
        for kind in (least := dict(ratings or {})):
            choose("data.ratings", kind, RATINGS)
        if take < 1:
            raise UserError(f"data.take={take} must be at least 1")
        self.take, self.which, self.least, self.longest = take, turns, least, longest_answer
        self.configs = list(configs or [options.pop("config", None)])
        self.cache = Path(cache).expanduser() if cache else Path(datasets.config.HF_DATASETS_CACHE) / "mmcredit"
        self.on_bad_row = options.get("on_bad_row", "raise")
        super().__init__(path, **options)

    def read(self) -> Rows:
        kept = [self._kept(config) for config in self.configs]
        for file in kept:
            told = json.loads(file.with_suffix(".json").read_text())
            self.report.read += sum(told["dropped"].values())
            self.report.dropped.update(told["dropped"])
            for reason, places in told["examples"].items():
                self.report.examples[reason] += places
        return Rows(datasets.concatenate_datasets([datasets.Dataset.from_file(str(file)) for file in kept]))

    def turns(self, row: Row) -> int:
        return len(row["texts"] or ()) if self.which == "all" else 1

    def entry(self, row: Row, turn: int) -> Entry:
        texts = self.value(row, "texts") or []
        if turn >= len(texts):
            raise BadRow("missing_field", "the row has no turn")
        for kind, least in self.least.items():
            each, lowest = row.get(f"{kind}_ratings") or [], row.get(f"{kind}_min")
            if (rated := each[turn] if turn < len(each) else lowest) is None or rated < least:
                raise LeftOut(f"rating_{kind}", f"{kind} is rated {rated}, below {least} (data.ratings)")
        said = texts[turn] or {}
        answer = str(said.get("assistant") or "").strip()
        if len(answer) > self.longest:
            raise LeftOut("long_answer", f"the answer has {len(answer)} characters (data.longest_answer)")
        meta = {"source": self.note(row, "source")}
        return Entry(str(said.get("user") or ""), answer, self.images(row), meta=meta)

    def _kept(self, config: str | None) -> Path:
        """The file of a subset's first ``take`` admitted rows, with the report of the others beside it."""
        wanted = (self.path, config, self.split, self.revision, self.take, self.which, sorted(self.least.items()))
        key = stable_seed("finevision", LAYOUT, *wanted, self.longest, self.on_bad_row, *_version(self.path))
        file = self.cache / f"finevision-{(config or 'default').replace('/', '_')}-{key:016x}.arrow"
        if file.is_file() and file.with_suffix(".json").is_file():
            return file
        self.cache.mkdir(parents=True, exist_ok=True)
        partial_file = file.with_suffix(f".{os.getpid()}.partial")
        gate = RowGate(f"{self.path}/{config}" if config else self.path, self.on_bad_row)
        with pa.OSFile(str(partial_file), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as out:
            self.pictures = Pictures(self.home())
            with self.pictures.checking():
                for row in gate.admit(self._stream(config, gate)):
                    out.write_batch(pa.RecordBatch.from_pylist([row], SCHEMA))
        told = partial_file.with_suffix(".json")
        told.write_text(json.dumps({"dropped": gate.report.dropped, "examples": gate.report.examples}))
        os.replace(told, file.with_suffix(".json"))
        os.replace(partial_file, file)
        return file

    def _stream(self, config: str | None, gate: RowGate) -> Iterator[tuple[object, partial[Row]]]:
        stream = load(self.path, self.split, config, self.revision, stream=True)
        for index, batch in enumerate(batches(stream)):
            if index == 0:
                self.columns = columns(batch.column_names, self.roles, self.required, self.path)
            if gate.report.kept >= self.take:
                return
            yield index, partial(self._checked, batch.to_pylist()[0], f"{config or 'row'}:{index}")

    def _checked(self, row: Row, name: str) -> Row:
        """The row in the kept file's layout, if one of its turns can be used."""
        row = {**row, "id": str(row.get("id") or name)}
        problem: BadRow = BadRow("missing_field", "the row has no turn")
        for turn in range(self.turns(row)):
            try:
                cells = self._made(row, turn, name)[1]
                data = [self.pictures.encoded(cell) for cell in cells if self.pictures.size(cell)]
            except BadRow as found:
                problem = found
            else:
                return {**row, "images": [{"bytes": each, "path": None} for each in data]}
        raise problem


def _version(path: str) -> list[object]:
    """What changes when local files change."""
    if is_hub_name(path):
        return []
    place = local(path, "/path/to/folder")
    files = sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]
    return [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in files]
