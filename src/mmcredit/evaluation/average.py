"""One table of several benchmarks, and their mean: each counts the same, as in the papers' "Avg."."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from mmcredit.files import write_text
from mmcredit.types import UserError


def average(folder: Path) -> dict[str, Any]:
    """The headlines of all evaluations below a folder (a sweep's), printed and in ``average.json``, ``average.md``.

    Raises:
        UserError: no scores below it, or two of one benchmark and form.
    """
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("scores.json")):
        report = json.loads(path.read_text("utf-8"))
        name = report["benchmark"]
        if name in found:
            raise UserError(f"{folder} holds two evaluations of {name}: average one model's at a time")
        found[name] = report
    if not found:
        raise UserError(f"no scores.json below {folder}: out=<folder of a sweep>, e.g. after -m benchmark=mmstar,mmmu")
    rows = {name: _row(report) for name, report in found.items()}
    mean = statistics.fmean(row["value"] for row in rows.values())
    result = {"benchmarks": rows, "average": mean}
    lines = ["| benchmark | metric | k | fixed | official |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        cells = [f"{100 * row[s]:.2f}" if s in row else "-" for s in ("fixed", "official")]
        lines.append(f"| {name} | {row['headline']} | {row['k']} | {' | '.join(cells)} |")
    lines.append(f"\nAverage of {len(rows)} benchmarks, each the same: {100 * mean:.2f}\n")
    write_text(folder / "average.md", "\n".join(lines))
    write_text(folder / "average.json", json.dumps(result, indent=1) + "\n")
    print("\n".join(lines))
    return result


def _row(report: dict[str, Any]) -> dict[str, Any]:
    """The headline by every scorer, and by the one that counts."""
    headline = report["headline"]
    values = {scorer: metrics[headline]["value"] for scorer, metrics in report["metrics"].items()}
    kept = {key: report[key] for key in ("headline", "k", "questions", "scorer")}
    return {**kept, **values, "value": values[report["scorer"]]}
