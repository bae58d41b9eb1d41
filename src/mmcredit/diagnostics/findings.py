"""What a diagnostic found, written as Markdown, JSON and pictures; each file is complete or not there."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmcredit.evaluation.statistics import Estimate
from mmcredit.files import write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | int | float | Estimate | None
Row = Mapping[str, Cell]


@dataclass(frozen=True)
class Section:
    """One table; rows may have different columns."""

    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Findings:
    """Tables, and figures by file name."""

    sections: Sequence[Section]
    figures: Mapping[str, Figure] = field(default_factory=dict)


def write(found: Findings, folder: Path, head: Mapping[str, Any]) -> str:
    """``table.md``, ``table.json`` and ``<figure>.png``; returns the Markdown. Tables without rows are left out.

    Args:
        head: what was measured: diagnostic, bank, checkpoints, bootstrap.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = replace(found, sections=[section for section in found.sections if section.rows])
    content = dict(head) | {"sections": [_plain(section) for section in found.sections]}
    write_text(folder / "table.json", json.dumps(content, indent=1, allow_nan=False) + "\n")
    for name, figure in found.figures.items():
        aside = folder / f"{name}.png.new"
        figure.savefig(aside, format="png", dpi=150, bbox_inches="tight")
        aside.replace(folder / f"{name}.png")
    text = markdown(found, head)
    write_text(folder / "table.md", text)
    return text


def markdown(found: Findings, head: Mapping[str, Any]) -> str:
    """All tables; an interval in brackets after its value."""
    lines = [f"# {head['diagnostic']}", "", *(f"{key}: {_text(value)}" for key, value in head.items())]
    for section in found.sections:
        columns = list(dict.fromkeys(name for row in section.rows for name in row))
        lines += ["", f"## {section.title}", "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        lines += [f"| {' | '.join(_cell(row.get(name)) for name in columns)} |" for row in section.rows]
        lines += ["", *section.notes] if section.notes else []
    lines += ["", *(f"![{name}]({name}.png)" for name in found.figures)]
    return "\n".join(lines) + "\n"


def _plain(section: Section) -> dict[str, Any]:
    rows = [{name: _json(value) for name, value in row.items()} for row in section.rows]
    return {"title": section.title, "rows": rows, "notes": list(section.notes)}


def _json(value: Cell) -> Any:
    """Numbers that JSON has; what is not known is null."""
    if isinstance(value, Estimate):
        kept = {key: _json(number) for key, number in asdict(value).items()}
        return kept if kept["std"] is not None else {key: kept[key] for key in ("value", "low", "high")}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Cell) -> str:
    if isinstance(value, Estimate):
        if not math.isfinite(value.value):
            return "-"
        known = math.isfinite(value.low) and math.isfinite(value.high)
        return f"{_number(value.value)} [{f'{_number(value.low)}, {_number(value.high)}' if known else '-'}]"
    if isinstance(value, float):
        return _number(value) if math.isfinite(value) else "-"
    return "-" if value is None else _text(value)


def _number(value: float) -> str:
    return f"{value:.2e}" if 0 < abs(value) < 5e-4 else f"{value:.4f}"


def _text(value: object) -> str:
    """Model text shown as text: no HTML, no Markdown cell ends."""
    shown = ", ".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)
    return html.escape(shown, quote=False).replace("|", "&#124;").replace("\n", " ")
