"""Run folders: what a run left behind, read back."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from yaml import YAMLError

from mmcredit.types import UserError

Curve = dict[int, float]  # by rollout step
ASIDE = ("seed", "run_dir", "ckpt_path", "logger", "observers", "hydra")  # of a configuration: no condition of an arm
CHAIN = "callbacks"


@dataclass(frozen=True)
class RunFolder:
    """A finished run. ``config`` is flat: dotted key -> value as composed, interpolations unresolved."""

    path: Path
    config: dict[str, Any]
    summary: dict[str, Any]
    provenance: dict[str, Any]  # empty for runs without one
    curves: dict[str, Curve]

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def conditions(self) -> dict[str, Any]:
        """The configuration without the seed, places and observers. Settings of methods not chosen do not count."""
        unused = [k.removesuffix("._target_") for k in self.config if k.startswith(CHAIN) and k.endswith("._target_")]
        chosen = tuple(f"{key}." for key in unused if key.count(".") == 1)
        kept = {k: v for k, v in self.config.items() if k.split(".")[0] not in ASIDE and k != CHAIN}
        return {k: v for k, v in kept.items() if not k.startswith(f"{CHAIN}.") or k.startswith(chosen)}

    @property
    def chain(self) -> str:
        """``VPPO > PACG``."""
        return " > ".join(self.summary["methods"]) or "no method"


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """Run folders among and below the given ones (a sweep's are its subfolders), each once, in order of their names.

    Raises:
        UserError: a folder that is not there, or has no run below it.
    """
    found = dict[Path, None]()
    for path in paths:
        if not path.is_dir():
            raise UserError(f"{path} is no folder; name run folders, or one that holds them: runs/<date>/<time>")
        below = [path] if _is_run(path) else [c.parents[1] for c in path.rglob("config/config.yaml")]
        if not below:
            raise UserError(f"{path} holds no run (a folder with config/config.yaml, as mmcredit.fit writes it)")
        found |= dict.fromkeys(sorted((p.resolve() for p in below), key=lambda p: [_number(part) for part in p.parts]))
    return list(found)


def _is_run(path: Path) -> bool:
    return (path / "config" / "config.yaml").is_file() or (path / "summary.json").is_file()


def _number(part: str) -> tuple[int, str]:
    """Sorts the jobs of a sweep 2 before 10."""
    return (int(part), "") if part.isdecimal() else (-1, part)


def load_run(path: Path) -> RunFolder:
    """A run.

    Raises:
        UserError: a file of it is missing or torn, in one line.
    """
    try:
        config = OmegaConf.to_container(OmegaConf.load(path / "config" / "config.yaml"), resolve=False)
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise UserError(f"{path}: config/config.yaml cannot be read ({_kind(error)})") from None
    flat = dict(_flat(config, "")) if isinstance(config, dict) else {}
    if not isinstance(flat.get("seed"), int) or "steps" not in flat:
        raise UserError(f"{path}: config/config.yaml is not that of a run of mmcredit.fit (no seed or steps in it)")
    summary = _json(path, "summary.json", "the run was stopped before its end, or goes on")
    if missing := [key for key in ("methods", "steps", "metrics_end", "seconds_by_stage") if key not in summary]:
        raise UserError(f"{path}: summary.json has no {', '.join(missing)}: it is not that of this version")
    origin = _json(path, "provenance.json", "") if (path / "provenance.json").exists() else {}
    return RunFolder(path, flat, summary, origin, curves(path))


def _json(path: Path, name: str, why: str) -> dict[str, Any]:
    try:
        found = json.loads((path / name).read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: there is no {name}: {why}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {name} is torn ({_kind(error)})") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: {name} is no JSON object")
    return found


def _kind(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:120]


def _flat(node: Any, prefix: str) -> Iterable[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def curves(path: Path) -> dict[str, Curve]:
    """Every logged scalar, from TensorBoard's files or the CSV logger's; of a step logged twice, the last value.

    Raises:
        UserError: a CSV file without numbers. Of torn TensorBoard files, what comes before the tear is read.
    """
    if any((path / "tensorboard").glob("events.*")):
        return _from_tensorboard(path / "tensorboard")
    file = path / "csv" / "metrics.csv"
    try:
        return _from_csv(file) if file.is_file() else {}
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path}: csv/metrics.csv is torn ({_kind(error)})") from None


def _from_tensorboard(folder: Path) -> dict[str, Curve]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # which tells of every restart within a folder
    kinds = ("compressedHistograms", "images", "audio", "histograms", "tensors")
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0} | dict.fromkeys(kinds, 1))
    events.Reload()
    return {key: {e.step: e.value for e in events.Scalars(key)} for key in events.Tags()["scalars"]}


def _from_csv(file: Path) -> dict[str, Curve]:
    found: dict[str, Curve] = {}
    with file.open(newline="", encoding="utf-8") as opened:
        for row in csv.DictReader(opened):
            for key, value in row.items():
                if key and value and key != "step" and row.get("step"):
                    found.setdefault(key, {})[int(row["step"])] = float(value)
    return found
