"""The comparison as files: ``report.html``, ``report.md`` and the curves beside the latter."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from mmcredit.files import write_text
from mmcredit.reporting.comparison import Comparison, Table
from mmcredit.reporting.curves import figure, svg_uri
from mmcredit.reporting.pages import render
from mmcredit.reporting.visible_text import visible


def write_report(found: Comparison, keys: Sequence[str], folder: Path) -> Path:
    """Writes the files; returns the page's path. ``keys``: of the learning curves."""
    curves = figure(found.arms, keys)
    uri = svg_uri(curves) if curves else None
    page = render("report.html.jinja", "report.css.jinja", found=found, curves=uri)
    write_text(folder / "report.html", page)
    write_text(folder / "report.md", "\n".join(markdown(found, bool(curves))) + "\n")
    if curves:
        write_text(folder / "curves.svg", curves)
    return folder / "report.html"


def markdown(found: Comparison, curves: bool) -> Iterator[str]:
    """Lines of the Markdown page."""
    yield "# Comparison of runs"
    yield f"\nBaseline: {cell(found.baseline.name)}."
    for warning in found.warnings:
        yield f"\n> **Not comparable.** {cell(warning)}"
    for remark in found.remarks:
        yield f"\n{cell(remark)}"
    if curves:
        yield "\n## Learning curves\n\nMean over seeds, band of one standard deviation."
        yield "\n![learning curves](curves.svg)"
    for table in found.tables:
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    yield f"\n## {cell(table.title)}\n"
    if table.note:
        yield f"{cell(table.note)}\n"
    for row in (table.head, ("---",) * len(table.head), *table.rows):
        yield f"| {' | '.join(map(cell, row))} |"


def cell(text: str) -> str:
    """Text as text: no HTML, no ends of Markdown cells or lines, no marks."""
    escaped = html.escape(visible(text).replace("\n", " "), quote=False)
    for mark in "\\`*_[]|":
        escaped = escaped.replace(mark, f"&#{ord(mark)};" if mark == "|" else f"\\{mark}")
    return escaped
