"""Where a run comes from: with its composed configuration, enough to repeat it (``<run>/provenance.json``)."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import distributions
from itertools import count
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

import mmcredit
from mmcredit.data.datamodule import DataModule
from mmcredit.data.fingerprint import fingerprint
from mmcredit.files import write_json

SETTINGS = (
    "OMP_",
    "MKL_",
    "CUDA_",
    "PYTORCH_",
    "NCCL_",
    "HF_HUB_OFFLINE",
)  # variables that can change numbers or speed
MAX_DIFF = 200_000  # characters of uncommitted changes kept
CODE = (".py", ".yaml", ".yml", ".toml")  # new files that count as changes of the code
EDGE = 2**20  # bytes read at both ends of a weight file


def provenance(cfg: DictConfig, data: DataModule) -> dict[str, Any]:
    """Seeds, what was asked for, data and model fingerprints, git state, versions and environment, for JSON."""
    sets = {"train": data.train, **data.val}
    return {
        "seed": cfg.seed,
        "overrides": overrides(),
        "resumed_from": cfg.ckpt_path,
        "data": {name: {"size": len(source), "fingerprint": fingerprint(source)} for name, source in sets.items()},
        "model": {"path": cfg.model.path, "fingerprint": model_fingerprint(cfg.model.path)},
        "template": _short(OmegaConf.to_yaml(cfg.template, resolve=True)),
        "git": git_state(Path(mmcredit.__file__).parent),
        "versions": {"python": platform.python_version(), **versions()},
        "environment": environment(),
    }


def write_provenance(found: Mapping[str, Any], run_dir: Path) -> None:
    """``provenance.json``; that of an earlier start in this folder is kept as ``provenance-1.json``, ``-2.json`` ..."""
    path = run_dir / "provenance.json"
    if path.exists():
        names = (path.with_name(f"provenance-{number}.json") for number in count(1))
        path.replace(next(name for name in names if not name.exists()))
    write_json(found, path)


def measured_on(cfg: DictConfig, data: DataModule) -> dict[str, str]:
    """Questions, template and sampling of each validation set as 16 hex digits; measurements compare where they are
    equal."""
    law = [cfg.rollout[key] for key in ("temperature", "top_p", "max_new_tokens")]
    how = f"{law} {OmegaConf.to_yaml(cfg.template, resolve=True)}"
    return {name: _short(f"{fingerprint(source)} {how}") for name, source in data.val.items()}


def _short(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def overrides() -> list[str] | None:
    """What was typed; None outside the command line."""
    from hydra.core.hydra_config import HydraConfig

    return list(HydraConfig.get().overrides.task) if HydraConfig.initialized() else None


def model_fingerprint(path: str | None) -> str | None:
    """16 hex digits of a model folder: its configuration, and name, size, first and last MiB of each weight file. None
    for a model that is no local folder: its hub name and revision say which it is."""
    if path is None or not Path(path).is_dir():
        return None
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted([Path(path) / "config.json", *Path(path).glob("*.safetensors"), *Path(path).glob("*.bin")]):
        if file.is_file():
            digest.update(f"{file.name} {file.stat().st_size}".encode())
            with file.open("rb") as opened:
                digest.update(opened.read(EDGE))
                opened.seek(max(file.stat().st_size - EDGE, 0))
                digest.update(opened.read(EDGE))
    return digest.hexdigest()


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit of the code, and what was changed since, new files of ``CODE`` included: ``git apply`` takes the diff on
    that commit. None where the code is in no repository; as diff, where it is too long."""
    commit, top = _git(folder, "rev-parse", "HEAD"), _git(folder, "rev-parse", "--show-toplevel")
    if commit is None or top is None:
        return None
    root = Path(top.removesuffix("\n"))
    changed = [line[3:] for line in (_git(root, "status", "--porcelain") or "").splitlines()]
    new = (_git(root, "ls-files", "-z", "--others", "--exclude-standard") or "").split("\0")
    code = [name for name in new if name.endswith(CODE) and (root / name).is_file()]
    diffs = [_git(root, "diff", "--binary", "HEAD") or ""]
    diffs += [_git(root, "diff", "--no-index", "--", "/dev/null", name, differs=1) or "" for name in code]
    diff = "".join(diffs)
    return {"commit": commit.strip(), "changed": changed, "diff": diff if len(diff) <= MAX_DIFF else None}


def _git(folder: Path, *arguments: str, differs: int = 0) -> str | None:
    """Output of a command that ended with 0 or, where that is no failure, ``differs``."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, errors="replace", timeout=20,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode in (0, differs) else None


def versions() -> dict[str, str]:
    """Of every installed package."""
    found = {package.metadata["Name"]: package.version for package in distributions() if package.metadata["Name"]}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def environment() -> dict[str, Any]:
    """The machine in general terms, and the settings of ``SETTINGS``; nothing that names a person or holds a secret."""
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    settings = {key: value for key, value in sorted(os.environ.items()) if key.startswith(SETTINGS)}
    return {
        "platform": platform.platform(), "processor": platform.machine(), "cpus": os.cpu_count(), "gpus": devices,
        "threads": torch.get_num_threads(), "settings": settings,
    }  # fmt: skip
