"""What a preparation kept, and why it dropped the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mmcredit.preparation.files import Row


def stage(name: str, before: int, faults: Sequence[str | None]) -> dict[str, Any]:
    """One stage's part of the report."""
    dropped = Counter(fault for fault in faults if fault is not None)
    return {"stage": name, "in": before, "kept": before - dropped.total(), "dropped": dict(sorted(dropped.items()))}


def learnability(rollouts: Sequence[Row]) -> dict[str, int]:
    """Number of samples by right responses: ``{"0/8": 3, ..., "8/8": 1}``."""
    size = len(rollouts[0]["correct"]) if rollouts else 0
    counts = Counter(sum(row["correct"]) for row in rollouts)
    return {f"{n}/{size}": counts[n] for n in range(size + 1)} if rollouts else {}


def references(rows: Sequence[Row]) -> dict[str, Any]:
    """How the references were chosen."""
    sums = {key: sum(row[key] for row in rows) for key in ("candidates", "duels", "failures", "ties")}
    return {"samples": len(rows), "kept_old": sum(row["old"] for row in rows), **sums}


def table(report: Mapping[str, Any]) -> str:
    """The report on the screen."""
    lines = [f"{'stage':12s} {'in':>7s} {'kept':>7s}  dropped"]
    for part in report["stages"]:
        why = ", ".join(f"{fault} {count}" for fault, count in part["dropped"].items())
        lines.append(f"{part['stage']:12s} {part['in']:7d} {part['kept']:7d}  {why}".rstrip())
    if report["learnability"]:
        most = max(report["learnability"].values())
        lines += ["right responses"]
        lines += [f"{n:>7s} {count:7d} {'#' * round(40 * count / most)}" for n, count in report["learnability"].items()]
    chosen = report["references"]
    lines.append(
        f"references: {chosen['samples']} of {chosen['candidates']} candidates, {chosen['duels']} comparisons "
        f"({chosen['ties']} ties, {chosen['failures']} without an answer), {chosen['kept_old']} as before"
    )
    lines.append(f"kept {report['kept']} of {report['candidates']} samples ({report['kept_share']:.1%})")
    return "\n".join(lines)
