"""Checks of a composed configuration before anything heavy is loaded."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from mmcredit.checkpoints import check_resume, resume_from
from mmcredit.processes import check_processes
from mmcredit.types import UserError


def check(cfg: DictConfig) -> None:
    """Refuse a run that cannot start.

    Raises:
        UserError: what is missing or does not fit, and what to type.
    """
    check_numbers(cfg)
    check_sizes(cfg)
    check_processes(ranks(cfg.trainer), cfg.trainer.num_nodes)
    if cfg.ckpt_path is not None:
        path = resume_from(cfg.ckpt_path)
        check_resume(path, cfg.steps)
        if path.is_dir() and OmegaConf.select(cfg, "trainer.strategy._target_") is None:
            raise UserError(f"ckpt_path={path} is a folder with a part from every rank: resume it with trainer=fsdp")
    missing = [*missing_hardware(cfg), *missing_weights(cfg), *missing_data(cfg), *missing_services(cfg)]
    if missing:
        raise UserError(
            f"this run cannot start here: {'; '.join(missing)}. "
            f"On a CPU, with what is built in: python -m mmcredit.fit {_experiment()}model=tiny data=world "
            "trainer=cpu rollout=hf steps=2"
        )


def _experiment() -> str:
    from hydra.core.hydra_config import HydraConfig

    choice = HydraConfig.get().runtime.choices.get("experiment") if HydraConfig.initialized() else None
    return f"experiment={choice} " if choice else ""


WHOLE, REAL = "a whole number", "a number"
RULES = {  # key -> kind, smallest, largest; absent keys are skipped
    "k": (WHOLE, 1, None),
    "batch": (WHOLE, 1, None),
    "steps": (WHOLE, 1, None),
    "seed": (WHOLE, 0, None),
    "max_grad_norm": (REAL, 1e-12, None),
    "algorithm.advantage.eps": (REAL, 0, None),
    "rollout.group": (WHOLE, 1, None),
    "rollout.temperature": (REAL, 0, None),
    "rollout.top_p": (REAL, 0, 1),
    "rollout.max_new_tokens": (WHOLE, 1, None),
    "rollout.engine.core.tensor_parallel_size": (WHOLE, 1, None),
    "algorithm.mini_batch": (WHOLE, 1, None),
    "algorithm.micro_batch": (WHOLE, 1, None),
    "algorithm.epochs": (WHOLE, 1, None),
    "algorithm.kl_coef": (REAL, 0, None),
    "algorithm.entropy_coef": (REAL, None, None),
    "optimizer.lr": (REAL, 0, None),
    "scoring.token_budget": (WHOLE, 1, None),
    "data.batch_size": (WHOLE, 1, None),
    "data.val_batch_size": (WHOLE, 1, None),
    "data.val_share": (REAL, 0, 1),
    "data.max_prompt_tokens": (WHOLE, 1, None),
    "data.train.size": (WHOLE, 0, None),
    "data.val.val.size": (WHOLE, 0, None),
    "data.val.counter_prior.size": (WHOLE, 0, None),
    "start": (WHOLE, 0, None),
    "samples": (WHOLE, 1, None),
    "responses": (WHOLE, 1, None),
    "max_mb": (REAL, 0, None),
}


def check_numbers(cfg: DictConfig) -> None:
    """Every plain number of the right kind and in its range."""
    for key, (kind, low, high) in RULES.items():
        parent, _, name = key.rpartition(".")
        node = OmegaConf.select(cfg, parent) if parent else cfg
        if node is None or name not in node:
            continue
        value = node[name]
        number = isinstance(value, int if kind is WHOLE else int | float) and not isinstance(value, bool)
        if number and math.isfinite(value) and (low is None or value >= low) and (high is None or value <= high):
            continue
        bounds = [f"at least {low:g}" if low is not None else "", f"at most {high:g}" if high is not None else ""]
        raise UserError(f"{key}={value} must be {kind} {' and '.join(filter(None, bounds))}".rstrip())


def check_sizes(cfg: DictConfig) -> None:
    """Group and batch counts that fit each other."""
    group, batch, mini = cfg.rollout.group, cfg.data.batch_size, cfg.algorithm.mini_batch
    if group < 2:
        raise UserError(
            f"rollout.group={group}: a group advantage compares responses, so at least 2 a prompt are needed; "
            "e.g. rollout.group=8"
        )
    if batch % mini:
        allowed = ", ".join(str(n) for n in range(1, batch + 1) if batch % n == 0)
        raise UserError(f"algorithm.mini_batch={mini} must divide data.batch_size={batch}: {allowed}")
    if mini % (count := ranks(cfg.trainer)):
        raise UserError(
            f"algorithm.mini_batch={mini} and data.batch_size={batch} count prompts over all ranks: they must be "
            f"multiples of the {count} ranks (trainer.devices x trainer.num_nodes)"
        )
    if (shared := OmegaConf.select(cfg, "rollout.engine.core.tensor_parallel_size") or 1) > 1:
        from mmcredit.rollout.vllm_group import check_split

        check_split(shared, count)
    if cfg.val_every is not None and not (isinstance(cfg.val_every, int) and cfg.val_every >= 1):
        raise UserError(f"val_every={cfg.val_every} must be at least 1, or null for start and end only")
    if (best := OmegaConf.select(cfg, "observers.checkpoint.keep_best")) and cfg.val_every is None:
        raise UserError(f"observers.checkpoint.keep_best={best} needs validations during training, e.g. val_every=20")


def ranks(trainer: DictConfig) -> int:
    """Processes that a trainer's configuration starts."""
    devices = trainer.devices
    if OmegaConf.is_list(devices):
        count = len(devices)
    elif isinstance(devices, int) and devices > 0:
        count = devices
    else:  # "auto", -1: all there are
        import torch

        count = torch.cuda.device_count() if trainer.accelerator == "gpu" else 1
    return max(count, 1) * int(trainer.num_nodes)


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
    nodes = [node for part in parts for node in part.values() if OmegaConf.is_dict(node) and "_target_" in node]
    services = {get_object(node["_target_"]) for node in nodes}
    names = sorted(service.name for service in services if getattr(service, "embedded", False))
    return [f"{name} knows only the embedded world ({_served(name.partition('=')[0])})" for name in names]


def _of_the_world(path: str | None) -> bool:
    """Whether a data file begins with a sample of the embedded world (``mmcredit.prepare padlayer`` writes such)."""
    try:
        with Path(path or "").expanduser().open(encoding="utf-8") as file:
            return "objects" in json.loads(file.readline())
    except (OSError, ValueError, TypeError):
        return False  # what is wrong with the file is said elsewhere


def _served(group: str) -> str:
    return f"{group}=openai {group}.chat.model=its name {group}.chat.base_url=http://localhost:8000/v1"
