"""Checks of a composed configuration before anything heavy is loaded."""

from __future__ import annotations

import math

from omegaconf import DictConfig, OmegaConf

from mmcredit.checkpoints import check_resume, resume_from
from mmcredit.missing import missing_data, missing_hardware, missing_services, missing_weights
from mmcredit.processes import check_processes
from mmcredit.types import UserError


def check(cfg: DictConfig) -> None:
    """Refuse a run that cannot start.

    Raises:
        UserError: what is missing or does not fit, and what to type.
    """
    check_numbers(cfg)
    check_sizes(cfg)
    check_attention(cfg)
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
    "port": (WHOLE, 0, 65535),
    "steps": (WHOLE, 1, None),
    "seed": (WHOLE, 0, None),
    "max_grad_norm": (REAL, 1e-12, None),
    "algorithm.advantage.eps": (REAL, 0, None),
    "rollout.group": (WHOLE, 1, None),
    "rollout.temperature": (REAL, 0, None),
    "rollout.top_p": (REAL, 0, 1),
    "rollout.max_new_tokens": (WHOLE, 1, None),
    "rollout.engine.batch": (WHOLE, 1, None),
    "trainer.num_nodes": (WHOLE, 1, None),
    "rollout.engine.core.tensor_parallel_size": (WHOLE, 1, None),
    "rollout.engine.core.max_model_len": (WHOLE, 1, None),
    "rollout.engine.core.images": (WHOLE, 0, None),
    "algorithm.mini_batch": (WHOLE, 1, None),
    "algorithm.micro_batch": (WHOLE, 1, None),
    "algorithm.epochs": (WHOLE, 1, None),
    "algorithm.kl_coef": (REAL, 0, None),
    "algorithm.entropy_coef": (REAL, None, None),
    "optimizer.lr": (REAL, 0, None),
    "scoring.token_budget": (WHOLE, 1, None),
    "data.batch_size": (WHOLE, 1, None),
    "data.val_batch_size": (WHOLE, 1, None),
    "benchmark.size": (WHOLE, 1, None),
    "data.val_share": (REAL, 0, 1),
    "data.max_prompt_tokens": (WHOLE, 1, None),
    "data.train.size": (WHOLE, 0, None),
    "data.val.val.size": (WHOLE, 0, None),
    "data.val.counter_prior.size": (WHOLE, 0, None),
    "start": (WHOLE, 0, None),
    "samples": (WHOLE, 1, None),
    "responses": (WHOLE, 1, None),
    "max_mb": (REAL, 0, None),
    "hardware.gpus": (WHOLE, 1, None),
    "hardware.gib": (REAL, 0, None),
    "hardware.pixels": (WHOLE, 0, None),
    "hardware.text_tokens": (WHOLE, 0, None),
}


def check_numbers(cfg: DictConfig) -> None:
    """Every plain number of the right kind and in its range, and room for prompts beside the longest response."""
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
    new, longest = (OmegaConf.select(cfg, f"rollout.{key}") for key in ("max_new_tokens", "engine.core.max_model_len"))
    if longest is not None and new >= longest:
        raise UserError(
            f"rollout.max_new_tokens={new} leaves no room for a prompt in rollout.engine.core.max_model_len={longest}, "
            f"which counts both: use e.g. rollout.engine.core.max_model_len={new + 4096}"
        )


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


def check_attention(cfg: DictConfig) -> None:
    """An attention that can be trained where the run is."""
    wanted, accelerator = OmegaConf.select(cfg, "model.policy.attention"), cfg.trainer.accelerator
    if wanted == "flex" and accelerator not in ("gpu", "cuda", "auto"):
        raise UserError(
            f"model.policy.attention=flex cannot train with trainer.accelerator={accelerator}: PyTorch has a backward "
            "pass of FlexAttention on GPUs only; use model.policy.attention=auto or sdpa"
        )


def ranks(trainer: DictConfig) -> int:
    """Processes that a trainer's configuration starts."""
    devices = trainer.devices
    if isinstance(devices, str) and "," in devices:
        devices = [part for part in devices.split(",") if part.strip()]
    if OmegaConf.is_list(devices) or isinstance(devices, list):
        count = len(devices)
    elif isinstance(devices, int) and devices > 0:
        count = devices
    else:  # "auto", -1: all there are
        import torch

        count = torch.cuda.device_count() if trainer.accelerator == "gpu" else 1
    return max(count, 1) * int(trainer.num_nodes)
