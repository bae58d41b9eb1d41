"""Run folders made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

CONFIG = {
    "steps": 4,
    "seed": 0,
    "run_dir": "${hydra:runtime.output_dir}",
    "data": {"batch_size": 8},
    "rollout": {"group": 4, "temperature": 1.0, "top_p": 1.0, "max_new_tokens": 16},
    "optimizer": {"lr": 1e-4},
    "callbacks": {"ced": {"eps": 0.0}},
}


def make_run(
    folder: Path,
    *methods: str,
    seed: int = 0,
    accuracy: float = 0.5,
    origin: dict[str, Any] | None = None,
    curves: dict[str, list[float]] | None = None,
    **changes: Any,
) -> Path:
    """A finished run, with the CSV logger's curves. ``changes``: of the configuration, e.g. ``optimizer={"lr": 1}``."""
    (folder / "config").mkdir(parents=True)
    chain = {name.lower(): {"_target_": f"mmcredit.callbacks.{name.lower()}.{name}", "tau": 0.2} for name in methods}
    config = OmegaConf.merge(CONFIG, {"seed": seed, "callbacks": chain}, changes)
    OmegaConf.save(config, folder / "config" / "config.yaml")
    summary = {
        "methods": list(methods),
        "steps": config.steps,
        "seconds": 12.0,
        "seconds_by_stage": {"rollout": 2.0, "update": 4.0},
        "tokens": {"computed": 400, "padded": 800},
        "extra_views": {"together": 4 * len(methods)},
        "metrics_end": {"val/accuracy": accuracy},
    }
    (folder / "summary.json").write_text(json.dumps(summary))
    data = {name: {"size": 10, "fingerprint": name * 2} for name in ("train", "val")}
    known = {"data": data, "model": {"path": "m", "fingerprint": "ab"}, "template": "cd", "git": {"commit": "c1"}}
    (folder / "provenance.json").write_text(json.dumps(known | (origin or {})))
    if curves:
        (folder / "csv").mkdir()
        names = list(curves)
        rows = zip(*curves.values(), strict=True)
        lines = [f"{','.join(map(str, row))},{step}" for step, row in enumerate(rows, 1)]
        (folder / "csv" / "metrics.csv").write_text("\n".join([",".join([*names, "step"]), *lines]) + "\n")
    return folder
