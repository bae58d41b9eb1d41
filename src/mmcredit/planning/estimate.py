"""From a composed configuration to the numbers of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from mmcredit.build import chosen
from mmcredit.credit import CreditCallback
from mmcredit.models.lora import adapters
from mmcredit.planning.architecture import Architecture, measure, on_meta
from mmcredit.planning.memory import Setup, parts, peak
from mmcredit.planning.tokens import Load
from mmcredit.teacher import refresh_interval
from mmcredit.types import UserError

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "32-true": 4, "bf16-mixed": 2, "16-mixed": 2, "bf16-true": 2}


@dataclass(frozen=True)
class Plan:
    """What a run needs on each GPU."""

    model: Architecture
    load: Load
    setup: Setup
    memory: dict[str, float]  # GiB by part
    gpu_gib: float

    @property
    def peak(self) -> float:
        return peak(self.memory)

    @property
    def fits(self) -> bool:
        return self.peak <= self.gpu_gib

    def warning(self) -> str | None:
        """One line where the run cannot fit, with what helps."""
        if self.fits:
            return None
        largest = max(self.memory, key=lambda name: self.memory[name])
        return (
            f"{self.peak:.0f} GiB are needed on each GPU of {self.gpu_gib:.0f} GiB, most by {largest} "
            f"({self.memory[largest]:.0f} GiB): use {HELP[largest]}"
        )


HELP = {
    "weights": "more GPUs (trainer=fsdp trainer.devices=n)",
    "gradients": "trainer.strategy.sync_each=true, or model/train=lora",
    "optimizer": "more GPUs (trainer=fsdp), or model/train=lora",
    "frozen copies": "trainer.strategy.offload_frozen=true, or model/train=lora, whose reference is no copy",
    "gathered layer": "trainer.strategy.compute=bfloat16",
    "activations": "algorithm.micro_batch=1 and model.policy.gradient_checkpointing=true",
    "keys and values": "a smaller rollout.engine.batch, or rollout=vllm",
    "vLLM": "rollout.engine.core.sleeps=true, or a smaller gpu_memory_utilization",
}


def estimate(cfg: DictConfig, gpus: int, gpu_gib: float, pixels: int, text_tokens: int) -> Plan:
    """The plan of a configuration of ``mmcredit.fit``.

    Args:
        gpus: over all nodes.
        pixels: of one picture, after the processor's resizing.
        text_tokens: of a question with its instruction.

    Raises:
        UserError: no configuration of the model is found, or a type of numbers is unknown.
    """
    policy = on_meta(cfg.model.path)
    instantiate(cfg.model.policy.train)(policy)
    model, chain = measure(policy), list[CreditCallback](chosen(cfg.get("callbacks")))
    trained = sum(p.numel() for p in policy.parameters() if p.requires_grad)
    shared = OmegaConf.select(cfg, "trainer.strategy._target_") is not None
    weight = _bytes("model.policy.dtype", cfg.model.policy.dtype)
    strategy = OmegaConf.select(cfg, "trainer.strategy.compute")
    compute = _bytes("trainer.strategy.compute or trainer.precision", strategy or str(cfg.trainer.precision))
    reference = bool(cfg.algorithm.kl_coef) or any(method.needs_reference for method in chain)
    copies = (reference and not adapters(policy.hf)) + bool(refresh_interval(chain))
    core: Any = OmegaConf.select(cfg, "rollout.engine.core")
    inside = core is not None and "gpu_memory_utilization" in core
    prompt = text_tokens + model.picture_tokens(pixels)
    load = Load(
        prompts=cfg.data.batch_size, group=cfg.rollout.group, new_tokens=cfg.rollout.max_new_tokens,
        prompt_tokens=prompt, views=sum(len(method.extra_views(cfg.seed)) for method in chain), reference=reference,
        engine_scores=core is None and min(weight, compute) == 4, epochs=cfg.algorithm.epochs,
    )  # fmt: skip
    setup = Setup(
        gpus=gpus if shared else 1, weight_bytes=weight, compute_bytes=min(compute, weight), trained=trained,
        gradients_shared=bool(OmegaConf.select(cfg, "trainer.strategy.sync_each")),
        copies=copies, offloaded=bool(OmegaConf.select(cfg, "trainer.strategy.offload_frozen")),
        checkpointing=cfg.model.policy.gradient_checkpointing,
        row_tokens=cfg.algorithm.micro_batch * (prompt + load.group * load.new_tokens),
        decoded=min(-(-load.prompts * load.group // gpus), OmegaConf.select(cfg, "rollout.engine.batch") or 0),
        context=prompt + load.new_tokens,
        engine_share=core.gpu_memory_utilization if inside and not core.sleeps else 0.0, cache_in_trainer=core is None,
    )  # fmt: skip
    return Plan(model, load, setup, parts(model, setup, gpu_gib), gpu_gib)


def _bytes(key: str, kind: str) -> int:
    if kind not in BYTES:
        raise UserError(f"{key}={kind} must be one of {', '.join(BYTES)}")
    return BYTES[kind]
