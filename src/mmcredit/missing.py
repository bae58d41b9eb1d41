"""What a composed configuration asks for and this machine lacks: GPUs, weights, data, services."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

import mmcredit.configs


def missing_hardware(cfg: DictConfig) -> list[str]:
    """An accelerator that the trainer asks for and the machine lacks."""
    if cfg.trainer.accelerator != "gpu":
        return []
    import torch

    return [] if torch.cuda.is_available() else ["no GPU was found (trainer=gpu)"]


def missing_weights(cfg: DictConfig) -> list[str]:
    """Model weights that are neither a directory, nor cached, nor reachable."""
    if cfg.model.path is None:
        return ["no model is named (model.path=its folder or hub name)"]
    path = str(cfg.model.path)
    if Path(path).is_dir():
        return []
    if path.startswith(("/", "./", "../", "~")) or path.count("/") != 1:
        return [f"there is no model directory {path} (model.path)"]
    from huggingface_hub import HfApi, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(path, "config.json"), str):
        return []
    if os.environ.get("HF_HUB_OFFLINE") != "1":
        try:
            HfApi().model_info(path, timeout=5)
        except Exception:  # unreachable, unknown or private: all mean that the weights cannot be had
            pass
        else:
            return []
    return [f"the weights of {path} are not in the cache and cannot be downloaded (model.path)"]


def missing_data(cfg: DictConfig) -> list[str]:
    """A data file that is not named or not there."""
    if "path" not in cfg.data.train:
        return []
    if cfg.data.path is None:
        return ["no data file is named (data.path=/path/to/file; for some corpora a folder or a hub name)"]
    from mmcredit.data.sources.rows import is_hub_name

    if Path(cfg.data.path).expanduser().exists() or is_hub_name(cfg.data.path):
        return []
    return [f"data.path={cfg.data.path} does not exist"]


def missing_services(cfg: DictConfig) -> list[str]:
    """Services of the chosen methods that know the embedded world only, where the data are others."""
    read = {"path", "instances"} & set(cfg.data.train)  # where the data are not computed
    if not read or _of_the_world(cfg.data.get("path")):
        return []
    from hydra.utils import get_object

    parts = [part for part in (cfg.get("callbacks") or {}).values() if "_target_" in part]
    names = sorted({get_object(n["_target_"]).name for part in parts for n in part.values() if _embedded(n)})
    return [f"{name} knows only the embedded world (use {_served(name.partition('=')[0])})" for name in names]


def _of_the_world(path: str | None) -> bool:
    """Whether a data file begins with a sample of the embedded world (``mmcredit.prepare padlayer`` writes such)."""
    try:
        with Path(path or "").expanduser().open(encoding="utf-8") as file:
            return "objects" in json.loads(file.readline())
    except (OSError, ValueError, TypeError):
        return False  # what is wrong with the file is said elsewhere


def _served(group: str) -> str:
    """What to type for the options of a group that know other data than the embedded world."""
    ways = []
    for path in sorted((Path(mmcredit.configs.__file__).parent / group).glob("*.yaml")):
        option = OmegaConf.load(path)
        if OmegaConf.is_dict(option) and not any(_embedded(part) for part in (option, *option.values())):
            chat = f" {group}.chat.model=its name {group}.chat.base_url=http://localhost:8000/v1"
            ways.append(f"{group}={path.stem}{chat if 'chat' in option else ''}")
    return ", or ".join(ways)


def _embedded(node: Any) -> bool:
    """Whether a part of a configuration is a service that knows the embedded world only."""
    from hydra.utils import get_object

    return OmegaConf.is_dict(node) and "_target_" in node and getattr(get_object(node["_target_"]), "embedded", False)
