"""What the gates let through: a table for the log, ``data_report.json`` and ``data_report.md`` in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mmcredit.data.prompt_gate import Admitted
from mmcredit.files import write_json, write_text

COLUMNS = ("set", "rows read", "kept", "samples", "prompt tokens", "answers", "dropped")
Sets = Mapping[str, Admitted]


def as_dict(sets: Sets) -> dict[str, Any]:
    """By name of the set. ``read``, ``kept`` and ``dropped`` count rows of the source, ``samples`` what the set holds:
    a source that is split into parts is read once for each. ``stand_ins`` counts what failed later, in mid-run."""
    return {
        name: {
            "source": found.report.source,
            "columns": found.report.columns,
            "read": found.report.read,
            "kept": found.report.kept,
            "samples": len(found),
            "prompt_tokens_at_most": found.longest,
            "answer_kinds": dict(found.report.kinds.most_common()),
            "dropped": dict(found.report.dropped.most_common()),
            "examples": dict(found.report.examples),
            "stand_ins": dict(found.stand_ins),
        }
        for name, found in sets.items()
    }


def as_table(sets: Sets) -> str:
    """Aligned Markdown, one line a set."""
    rows = [COLUMNS, *(_row(name, found) for name, found in as_dict(sets).items())]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def _row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = (f"{found[key]:,}" for key in ("read", "kept", "samples"))
    counts = (_counts(found[key]) for key in ("answer_kinds", "dropped"))
    tokens = f"<= {found['prompt_tokens_at_most']:,}" if found["samples"] else "-"
    return name, *numbers, tokens, *counts


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{key} {count:,}" for key, count in found.items()) or "-"


def as_markdown(sets: Sets) -> str:
    """The table, then for each set where it came from, its columns, and examples of what was dropped."""
    lines = ["# Data", "", as_table(sets)]
    for name, found in as_dict(sets).items():
        lines += ["", f"## {name}", "", f"Source: {_plain(found['source'])}"]
        if found["columns"]:
            lines += ["", *(f"* {field}: column {_plain(column)}" for field, column in found["columns"].items())]
        for reason, places in found["examples"].items():
            lines += ["", f"Dropped, {reason} ({found['dropped'].get(reason, 0):,}):", ""]
            lines += [f"* {_plain(place)}" for place in places]
    return "\n".join(lines) + "\n"


def _plain(text: str) -> str:
    """Corpus text on one line, never as Markdown or HTML."""
    return "`" + " ".join(str(text).split()).replace("`", "'") + "`"


def write(sets: Sets, folder: Path) -> None:
    """Both files, each complete or not there."""
    write_json(as_dict(sets), folder / "data_report.json")
    write_text(folder / "data_report.md", as_markdown(sets))
