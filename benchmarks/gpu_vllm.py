"""vLLM in the training process against the Hugging Face engine (``benchmarks.gpu_checks``)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu_checks import VLLM_LOGP, Finding, Place, at_most, greedy
from mmcredit.models.layout import Row
from mmcredit.models.load import export
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.rollout.vllm import VLLMEngine
from mmcredit.rollout.vllm_core import LocalCore
from mmcredit.types import Prompts

GREEDY, LAW = SamplingLaw(1, 0.0, 1.0, 12), SamplingLaw(4, 0.7, 1.0, 12)
CYCLES, LEAK = 5, 256.0  # of sleep and wake; MiB that may be missing after them


def compare(where: Place, policy: VisionLanguageModel, processor: Any, prompts: Prompts) -> list[Finding]:
    """Tokens, log-probs after an update, and, on a GPU, memory given back by sleep and taken by wake."""
    with tempfile.TemporaryDirectory() as folder:
        export(policy, processor, Path(folder) / "policy")
        core = LocalCore(
            str(Path(folder) / "policy"), sleeps=where.kind == "gpu", dtype="float32", max_model_len=1024, seed=0,
            max_num_seqs=32, enforce_eager=True, gpu_memory_utilization=0.4,
        )  # fmt: skip
        ours, theirs = greedy(policy, prompts), VLLMEngine(GREEDY, 0, core).generate(policy, prompts, 0).ids
        same = sum(y.tolist() == x for (y,), x in zip(theirs, ours, strict=True))
        found = [Finding("prompts with the same greedy tokens", same, len(prompts), same == len(prompts))]
        limit = VLLM_LOGP[where.kind]
        found.append(at_most("largest |log-prob difference|", gap(policy, prompts, core), limit))
        move(policy)
        found.append(at_most("the same after an update of all weights", gap(policy, prompts, core), limit))
        return found + (sleep(policy, prompts, core) if where.kind == "gpu" else [])


def gap(policy: VisionLanguageModel, prompts: Prompts, core: LocalCore) -> float:
    """Largest difference in nats between vLLM's log-probs of fresh responses and the trainer's under the same law."""
    sampled, ours, here = VLLMEngine(LAW, 0, core).generate(policy, prompts, 0), [], policy.device
    fields = (prompts.ids, policy.positions(prompts), policy.features(prompts.pixels, prompts.grids), sampled.ids)
    for ids, position, feature, group in zip(*fields, strict=True):
        with torch.no_grad():
            found = policy.predictors([Row(ids.to(here), position, feature, (y.to(here),)) for y in group])
            p_UV = LAW.probabilities(policy.logits(found.hidden_UD), policy.forbidden_ids)
        ours.append(p_UV.gather(1, found.targets_U[:, None])[found.unique_S, 0].log().float().cpu())
    theirs = torch.cat([logps for group in sampled.logps for logps in group])
    return float((theirs - torch.cat(ours)).abs().max())


def move(policy: VisionLanguageModel, scale: float = 0.2) -> None:
    """Other weights, as after an update."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(1 + scale * torch.randn_like(parameter))


def sleep(policy: VisionLanguageModel, prompts: Prompts, core: LocalCore) -> list[Finding]:
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
