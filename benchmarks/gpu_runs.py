"""Whole runs of ``python -m mmcredit.fit`` and the distance between their curves (``benchmarks.gpu_checks``)."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

LIMITS = {"train/loss": 1e-3, "train/grad_norm": 1e-3}  # relative, over five steps; float32


def curves(folder: Path, before: list[str], *options: str) -> dict[str, list[float]]:
    """Numbers of ``python -m mmcredit.fit``, step by step.

    Raises:
        RuntimeError: it failed; with the end of what it printed.
    """
    command = [sys.executable, *before, "-m", "mmcredit.fit", f"hydra.run.dir={folder}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-250:] or done.stdout[-250:])
    (table,) = folder.rglob("metrics.csv")
    with table.open() as file:
        rows = [row for row in csv.DictReader(file) if row.get("train/loss")]
    return {name: [float(row[name]) for row in rows] for name in LIMITS}


def apart(one: dict[str, list[float]], other: dict[str, list[float]], name: str) -> float:
    """Largest difference over the largest value; infinite where the numbers of steps differ."""
    a, b = one[name], other[name]
    if len(a) != len(b):
        return float("inf")
    return max(abs(x - y) for x, y in zip(a, b, strict=True)) / max(map(abs, a))
