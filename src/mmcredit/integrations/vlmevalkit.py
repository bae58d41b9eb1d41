"""VLMEvalKit: predictions that it can score, and a checkpoint as one of its models.

Predictions: ``export`` writes ``<work>/<model>/<model>_<dataset>.<form>`` from an evaluation's folder and the
benchmark's TSV; then ``python run.py --data <dataset> --model <model> --work-dir <work> --mode eval --reuse``.

Model: ``register("mine", "<run>/policy")`` before its ``run.py`` asks for ``--model mine``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mmcredit.evaluation.files import Folder
from mmcredit.integrations.chat import ChatModel, Request
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.types import UserError

PICTURES = ("image", "image_path")  # columns that predictions leave out


def export(folder: str | Path, tsv: str | Path, work: str | Path, model: str, form: str = "xlsx", k: int = 0) -> Path:
    """Write response number k of every question that the folder holds.

    Args:
        folder: of an evaluation (``out=``).
        tsv: the benchmark's file, whose name is the data set's; its columns go along, pictures left out.
        work: VLMEvalKit's ``--work-dir``.
        model: the name under which it looks for the file.
        form: ``xlsx`` (its default; needs openpyxl), ``tsv`` or ``json`` (its ``PRED_FORMAT``; the kit of August 2026
            reads json back as a list, which its option scorer refuses).
        k: which response.

    Raises:
        UserError: unknown form, or no prediction of any row.
    """
    if form not in WRITERS:
        raise UserError(f"export.form={form} must be one of {', '.join(WRITERS)}")
    file = Path(tsv).expanduser()
    found = Folder(Path(folder).expanduser())
    said = {q.meta.get("index", q.id): found.predictions.get((q.id, k)) for q in found.questions}
    names, rows = _rows(file)
    kept = [{**row, "prediction": p.prediction} for row in rows if (p := said.get(row["index"])) is not None]
    if not kept:
        raise UserError(f"{found.path} holds no response number {k} to a question of {file.name}")
    path = Path(work).expanduser() / model / f"{model}_{file.stem}.{form}"
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"new_{path.name}")
    WRITERS[form](aside, [*names, "prediction"], kept)
    return aside.replace(path)


def _rows(file: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows without the pictures, cells as they stand there."""
    csv.field_size_limit(2**31 - 1)
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t")
        names = [name for name in reader.fieldnames or () if name not in PICTURES]
        return names, [{name: row[name] or "" for name in names} for row in reader]


def _table(names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> Any:
    """The rows as pandas reads the file: numbers where a whole column is numbers, NaN for empty cells."""
    import io

    import pandas as pd

    text = io.StringIO()
    writer = csv.DictWriter(text, names, delimiter="\t", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows({**row, "prediction": ""} for row in rows)
    text.seek(0)
    table = pd.read_csv(text, sep="\t", keep_default_na=False, na_values=[""])
    table["prediction"] = [row["prediction"] for row in rows]
    return table


def _xlsx(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    try:
        from openpyxl import Workbook
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    except ImportError:
        raise UserError("export.form=xlsx needs openpyxl (pip install 'mmcredit[kits]'); or export.form=tsv") from None
    book = Workbook(write_only=True)
    sheet = book.create_sheet("Sheet1")
    sheet.append(list(names))
    for row in _table(names, rows).astype(object).itertuples(index=False):
        cells = [None if isinstance(value, float) and math.isnan(value) else value for value in row]
        plain = [ILLEGAL_CHARACTERS_RE.sub("", c)[:CELL] if isinstance(c, str) else c for c in cells]
        sheet.append([_cell(sheet, c) for c in plain])
    book.save(path)


def _cell(sheet: Any, value: Any) -> Any:
    """A text stays one, though it begins like a formula."""
    from openpyxl.cell import WriteOnlyCell

    cell = WriteOnlyCell(sheet, value)
    if isinstance(value, str):
        cell.data_type = "s"
    return cell


def _tsv(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, delimiter="\t", quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)


def _json(path: Path, names: Sequence[str], rows: Sequence[Mapping[str, str]]) -> None:
    _table(names, rows).to_json(path, orient="records", force_ascii=False, indent=1)


CELL = 32_767  # characters that a cell of a workbook can hold
WRITERS: dict[str, Callable[[Path, Sequence[str], Sequence[Mapping[str, str]]], None]] = {
    "xlsx": _xlsx, "tsv": _tsv, "json": _json,
}  # fmt: skip


def register(name: str, path: str, **options: Any) -> None:
    """Make a checkpoint known to VLMEvalKit under a name; it is loaded when it is first asked for.

    Args:
        options: of ``ChatModel``; ``temperature`` (0), ``top_p``, ``max_new_tokens`` (2048).
    """
    from vlmeval.config import supported_VLM
    from vlmeval.vlm.base import BaseModel

    supported_VLM[name] = partial(kit_model(BaseModel), path, **options)


def kit_model(base: type) -> Any:
    """A model class on VLMEvalKit's ``BaseModel``."""

    class KitModel(base):  # type: ignore[misc]
        """Answers the kit's messages: a list of ``{type: text | image, value: text | file}``."""

        INTERLEAVE = True

        def __init__(
            self, path: str, temperature: float = 0.0, top_p: float = 1.0, max_new_tokens: int = 2048, **options: Any
        ) -> None:
            super().__init__()
            self.law = SamplingLaw(1, temperature, top_p, max_new_tokens)
            self.model = ChatModel(path, **options)

        def generate_inner(self, message: Sequence[Mapping[str, str]], dataset: str | None = None) -> str:
            parts = tuple(m["value"] if m["type"] == "text" else Path(m["value"]) for m in message)
            name = "\x1f".join([dataset or "", *(part if isinstance(part, str) else part.name for part in parts)])
            return self.model([Request(name, parts, self.law)])[0]

    return KitModel
