"""``python -m benchmarks.step``: the training step measured on this machine, as tables and as JSON."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.settings import SMALLEST, Settings
from benchmarks.table import Table

SECTIONS = {
    "trl": "benchmarks.peers",
    "packing": "benchmarks.packing",
    "methods": "benchmarks.methods",
    "memory": "benchmarks.memory",
    "growth": "benchmarks.growth",
    "flops": "benchmarks.flops",
    "services": "benchmarks.services",
}
SCALARS = [f for f in fields(Settings) if isinstance(f.default, int)]  # settings that have an option of their own
PACKAGES = ("mmcredit", "torch", "transformers", "trl")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step", description=__doc__)
    default = Path(__file__).parent / "results" / "step.json"
    parser.add_argument("out", nargs="?", type=Path, default=default, help="JSON file; default %(default)s")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="default: all")
    parser.add_argument("--smallest", action="store_true", help="smallest sizes: does it run? Numbers mean nothing")
    for field in SCALARS:
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=int, help=f"default {field.default}")
    return parser.parse_args(arguments)


def chosen(args: argparse.Namespace) -> Settings:
    """The settings that the command line asks for."""
    given = {field.name: value for field in SCALARS if (value := getattr(args, field.name)) is not None}
    return replace(SMALLEST if args.smallest else Settings(), **given)


def machine() -> dict[str, Any]:
    """Where and with what it was measured."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    here = {"cpu": processor_name(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    return here | {"threads": torch.get_num_threads()} | versions


def processor_name() -> str:
    """As the system calls it."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Table]]:
    """Run the sections, print each as it is done, write what was found so far after each."""
    args = parse(arguments)
    settings = chosen(args)
    torch.set_num_threads(1)
    where = machine()
    print(", ".join(f"{key} {value}" for key, value in where.items()))
    found: dict[str, list[Table]] = {}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for name in args.sections:
        begin = time.perf_counter()
        found[name] = importlib.import_module(SECTIONS[name]).run(settings)
        for table in found[name]:
            print(table)
        print(f"[{name}: {time.perf_counter() - begin:.0f} s]", flush=True)
        tables = {key: [asdict(table) for table in part] for key, part in found.items()}
        content = {"machine": where, "settings": asdict(settings), "sections": tables}
        args.out.write_text(json.dumps(content, indent=2) + "\n")
    print(f"written: {args.out}")
    return found


if __name__ == "__main__":
    main()
