"""(f) The measured step against the ideal: floating-point operations counted and computed, and the rate reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from benchmarks.ours import FIXED, FORCED, MIXED, Steps
from benchmarks.settings import Settings
from benchmarks.table import Row, Table
from benchmarks.timing import clocked, interleave, middle
from mmcredit.algorithm.selection import Batch
from mmcredit.credit import Record
from mmcredit.models.vlm import VisionLanguageModel

ATEN = torch.ops.aten
STAGES = ("rollout", "old_logp", "update")
Shape = tuple[int, ...]


def attention(query: Shape, key: Shape, value: Shape, *rest: Any, **options: Any) -> int:
    """FLOP of PyTorch's attention on CPU, masked pairs included."""
    return sdpa_flop_count(query, key, value)


def attention_backward(gradient: Shape, query: Shape, key: Shape, value: Shape, *rest: Any, **options: Any) -> int:
    """FLOP of its backward pass, the recomputed scores included."""
    return sdpa_backward_flop_count(gradient, query, key, value)


CPU_ATTENTION = {  # PyTorch's counter knows the kernels of GPUs only
    ATEN._scaled_dot_product_flash_attention_for_cpu: attention,
    ATEN._scaled_dot_product_flash_attention_for_cpu_backward: attention_backward,
}


@dataclass(frozen=True)
class Costs:
    """FLOP of a forward pass, by what it grows with (Qwen3-VL). A weight costs 2 FLOP a use, a query-key pair 4 a
    channel (scores and sum)."""

    token: int  # text token: 2 x weights of the decoder layers
    pair: int  # text query and key: 4 x layers x heads x head width
    head: int  # token whose distribution is needed: 2 x vocabulary x width
    patch: int  # 2 x weights of patch embedding and vision blocks
    patch_pair: int  # 4 x vision blocks x vision width
    merged: int  # merged image token: 2 x weights of the mergers


def costs(policy: VisionLanguageModel) -> Costs:
    """From the policy's parameter counts."""
    text, vision = policy.hf.config.text_config, policy.hf.config.vision_config
    tower = policy.family.vision_tower(policy.hf)
    return Costs(
        token=2 * weights(policy.family.decoder_layers(policy.hf)),
        pair=4 * text.num_hidden_layers * text.num_attention_heads * text.head_dim,
        head=2 * text.vocab_size * text.hidden_size,
        patch=2 * (weights(tower.patch_embed) + weights(tower.blocks)),
        patch_pair=4 * vision.depth * vision.hidden_size,
        merged=2 * (weights(tower.merger) + weights(tower.deepstack_merger_list)),
    )


def weights(part: nn.Module) -> int:
    """Parameters that are multiplied: matrices and kernels, no biases or norms."""
    return sum(p.numel() for p in part.parameters() if p.dim() > 1)


def forward(c: Costs, prompt: int, patches: int, merge: int, group: int, new_tokens: int) -> int:
    """FLOP of P prompt tokens with one square of N patches, and G responses of T tokens that share them::

    N patch + N^2 patch_pair + N / merge^2 merged
    + P token + P (P + 1) / 2 pair
    + G (T (token + head) + (T P + T (T + 1) / 2) pair)
    """
    vision = patches * c.patch + patches**2 * c.patch_pair + patches // merge**2 * c.merged
    shared = prompt * c.token + prompt * (prompt + 1) // 2 * c.pair
    pairs = new_tokens * prompt + new_tokens * (new_tokens + 1) // 2
    return vision + shared + group * (new_tokens * (c.token + c.head) + pairs * c.pair)


def ideal(steps: Steps, settings: Settings) -> dict[str, float]:
    """FLOP of the ideal step by stage, one term a prompt.

    Rollout: one prefill of the prompt and G decodes of T tokens = ``forward``. Old log-probs: none, sampling gives
    them. Update: forward and backward of P + G T tokens = 3 ``forward`` (a backward pass is two products for each of
    the forward). The optimizer is left out: a few FLOP a parameter.
    """
    c, merge, total = costs(steps.module.policy), steps.module.scorer.encoder.processor.merge, 0
    prompts = steps.encode()
    for ids, pixels in zip(prompts.ids, prompts.pixels, strict=True):
        patches = 0 if pixels is None else len(pixels)
        total += forward(c, len(ids), patches, merge, settings.group, settings.new_tokens)
    return {"rollout": total, "old_logp": 0, "update": 3 * total}


def counted(call: Callable[[], object]) -> float:
    """FLOP of the matrix products, convolutions and attention that a call runs."""
    with FlopCounterMode(display=False, custom_mapping=CPU_ATTENTION) as counter:
        call()
    return counter.get_total_flops()


def executed(steps: Steps) -> dict[str, float]:
    """FLOP that the step runs, by stage."""
    module, prompts = steps.module, steps.encode()
    rollout = module.sample(prompts, Record())
    batch = Batch(rollout, tuple(range(len(prompts))), len(prompts))
    advantage = torch.ones(rollout.shape) * rollout.mask_BGT
    return {
        "rollout": counted(lambda: module.engine.generate(module.policy, prompts, 0)),
        "old_logp": counted(lambda: module.update.score_old(batch)),
        "update": counted(lambda: module.update(batch, advantage, None, Record())),
    }


def matmul_rate(side: int) -> float:
    """GFLOP/s of a square product: what this thread can reach."""
    a, b = torch.randn(side, side), torch.randn(side, side)
    best = min(clocked(lambda: a @ b) for _ in range(10))
    return 2 * side**3 / best / 1e9


def run(settings: Settings) -> list[Table]:
    """The table of this section."""
    steps = Steps(settings, *FORCED, *MIXED, *FIXED)
    runs = interleave({"step": partial(steps)}, settings.repetitions)["step"]
    best, done, rate = ideal(steps, settings), executed(steps), matmul_rate(settings.matmul)
    for flops in (best, done):
        flops["step"] = sum(flops.values())
    rows: list[Row] = []
    for stage in (*STAGES, "step"):
        seconds, gflop, least = middle(runs, stage), done[stage] / 1e9, best[stage] / 1e9
        row: Row = {"stage": stage, "ms": 1000 * seconds, "gflop": gflop, "ideal_gflop": least}
        row |= {"gflop_over_ideal": gflop / least if least else "-", "gflop_per_s": gflop / seconds}
        row |= {"ideal_ms": 1000 * least / rate, "ms_over_ideal": seconds * rate / least if least else "-"}
        rows.append(row)
    size = f"{settings.prompts} prompts, G = {settings.group}, T = {settings.new_tokens}"
    notes = [f"ideal_ms: the ideal FLOP at {rate:.1f} GFLOP/s, a product of {settings.matmul} x {settings.matmul} here"]
    return [Table(f"(f) FLOP of the step: {size}", rows, notes)]
