"""vLLM in the training process against the Hugging Face engine (``benchmarks.gpu_checks``)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu_checks import Finding, Place, at_most
from mmcredit.models.layout import Row
from mmcredit.models.load import export
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.rollout.vllm import VLLMEngine
from mmcredit.rollout.vllm_core import Core, LocalCore
from mmcredit.types import Prompts

GREEDY, LAW = SamplingLaw(1, 0.0, 1.0, 12), SamplingLaw(4, 1.0, 0.9, 12)
VLLM_LOGP = {"cpu": 1e-3, "gpu": 5e-3}  # nats, float32; attention kernels differ on GPUs
CYCLES, LEAK = 5, 256.0  # of sleep and wake; MiB that may be missing after them


def compare(where: Place, policy: VisionLanguageModel, processor: Any, prompts: Prompts) -> list[Finding]:
    """One vLLM in this process."""
    with tempfile.TemporaryDirectory() as folder:
        export(policy, processor, Path(folder) / "policy")
        core = LocalCore(str(Path(folder) / "policy"), **options(where.kind))
        return agree(where.kind, policy, prompts, core)


def options(kind: str) -> dict[str, Any]:
    """Of ``LocalCore``, where the kind of device is ``gpu`` or ``cpu``."""
    return {
        "sleeps": kind == "gpu", "dtype": "float32", "max_model_len": 1024, "seed": 0, "max_num_seqs": 32,
        "enforce_eager": True, "gpu_memory_utilization": 0.4,
    }  # fmt: skip


def agree(kind: str, policy: VisionLanguageModel, prompts: Prompts, core: Core) -> list[Finding]:
    """Tokens, log-probs after an update, and, on a GPU, memory given back by sleep and taken by wake."""
    ours, theirs = (e.generate(policy, prompts, 0).ids for e in (HFEngine(GREEDY, 0), VLLMEngine(GREEDY, 0, core)))
    same = sum(torch.equal(x, y) for (x,), (y,) in zip(ours, theirs, strict=True))
    found = [Finding("prompts with the same greedy tokens", same, len(prompts), same == len(prompts))]
    limit = VLLM_LOGP[kind]
    found.append(at_most("largest |log-prob difference|", gap(policy, prompts, core), limit))
    move(policy)
    found.append(at_most("the same after an update of all weights", gap(policy, prompts, core), limit))
    return found + (sleep(policy, prompts, core) if kind == "gpu" else [])


def gap(policy: VisionLanguageModel, prompts: Prompts, core: Core) -> float:
    """Largest difference in nats between vLLM's log-probs of fresh responses and the trainer's."""
    sampled, ours, here = VLLMEngine(LAW, 0, core).generate(policy, prompts, 0), [], policy.device
    fields = (prompts.ids, policy.positions(prompts), policy.features(prompts.pixels, prompts.grids), sampled.ids)
    for ids, position, feature, group in zip(*fields, strict=True):
        with torch.no_grad():
            found = policy.predictors([Row(ids.to(here), position, feature, (y.to(here),)) for y in group])
            at = torch.arange(len(found.targets_U), device=here)
            logp_U = LAW.logp(policy.logits(found.hidden_UD), found.targets_U, at)
        ours.append(logp_U[found.unique_S].float().cpu())
    theirs = torch.cat([logps for group in sampled.logps for logps in group])
    return float((theirs - torch.cat(ours)).abs().max())


def move(policy: VisionLanguageModel, scale: float = 0.2) -> None:
    """Other weights, as after an update."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1 + scale * torch.randn_like(parameter))


def sleep(policy: VisionLanguageModel, prompts: Prompts, core: Core) -> list[Finding]:
    """Cycles of sleep and wake with an update each: log-probs hold, memory comes back."""
    engine, free = VLLMEngine(GREEDY, 0, core), []
    for _ in range(CYCLES):
        move(policy, 1e-3)
        engine.generate(policy, prompts, 0)  # wakes, syncs, samples, sleeps
        free.append(torch.cuda.mem_get_info()[0] / 2**20)
    after = gap(policy, prompts, core)
    return [
        at_most("the same after sleeping and waking", after, VLLM_LOGP["gpu"]),
        at_most(f"MiB lost in {CYCLES - 1} cycles", max(free[0] - free[-1], 0.0), LEAK),
    ]
