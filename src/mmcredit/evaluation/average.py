"""One table of several benchmarks, and their mean: each counts the same, as in the papers' "Avg."."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from mmcredit.evaluation.files import write_text
from mmcredit.types import UserError


def average(folder: Path) -> dict[str, Any]:
    """The headlines of all evaluations below a folder (a sweep's); writes ``average.json`` and ``average.md``.

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
    rows: dict[str, dict[str, Any]] = {
        name: {"headline": r["headline"], "k": r["k"], "questions": r["questions"]}
        | {scorer: metrics[r["headline"]]["value"] for scorer, metrics in r["metrics"].items()}
        | {"value": r["metrics"][r["scorer"]][r["headline"]]["value"], "scorer": r["scorer"]}
        for name, r in found.items()
    }
    result = {"benchmarks": rows, "average": statistics.fmean(row["value"] for row in rows.values())}
    lines = ["| benchmark | metric | k | fixed | official |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        cells = [f"{100 * row[s]:.2f}" if s in row else "-" for s in ("fixed", "official")]
        lines.append(f"| {name} | {row['headline']} | {row['k']} | {' | '.join(cells)} |")
    lines.append(f"\nAverage of {len(rows)} benchmarks, each the same: {100 * result['average']:.2f}\n")
    write_text(folder / "average.md", "\n".join(lines))
    write_text(folder / "average.json", json.dumps(result, indent=1) + "\n")
    return result
