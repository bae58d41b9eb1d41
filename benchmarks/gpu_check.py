"""``python -m benchmarks.gpu_check``: does what is proved on CPUs hold on this machine's GPUs?

Exit status 0: all agrees; 1: a mismatch or a failure; 2: no GPU. ``--cpu`` runs what can run without one, at tiny size.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

import torch

from benchmarks import gpu_checks
from benchmarks.gpu_checks import CHECKS, Finding, Place
from benchmarks.table import Row, Table

NO_GPU = "no GPU was found: python -m benchmarks.gpu_check --cpu runs what can run without one"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check", description=__doc__)
    parser.add_argument("--cpu", action="store_true", help="on the CPU, two gloo processes where several are needed")
    parser.add_argument("--model", default=None, help="folder or hub name of a model; default: the shipped tiny one")
    parser.add_argument("--checks", nargs="+", choices=CHECKS, default=list(CHECKS), help="default: all")
    return parser.parse_args(arguments)


def place(args: argparse.Namespace) -> Place | None:
    """Where the checks run; None without a GPU."""
    if args.cpu:
        return Place("cpu", 2, args.model)
    return Place("gpu", torch.cuda.device_count(), args.model) if torch.cuda.is_available() else None


def run(name: str, where: Place) -> list[Finding]:
    """What one check found; its failure is a finding, too."""
    try:
        return gpu_checks.CHECKS[name](where)
    except Exception as error:  # a check that breaks must not hide the others
        return [Finding(f"{type(error).__name__}: {error}"[-300:].replace("\n", " "), ok=False)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit status."""
    args = parse(arguments)
    where = place(args)
    if where is None:
        print(NO_GPU, file=sys.stderr)
        return 2
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows, passed = list[Row](), True
    for name in args.checks:
        begin = time.perf_counter()
        found = run(name, where)
        seconds = time.perf_counter() - begin
        for finding in found:
            passed = passed and finding.ok is not False
            row: Row = {"check": name, "what": finding.what, "found": finding.found, "limit": finding.limit}
            rows.append(row | {"verdict": finding.verdict, "seconds": seconds})
        print(f"{name}: {', '.join(finding.verdict for finding in found)} ({seconds:.0f} s)", flush=True)
    print(Table(f"checks on {where}", rows))
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
