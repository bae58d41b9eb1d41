"""The checks of ``benchmarks.gpu_check``: each compares what a GPU does with what is known to be right."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.gpu_runs import LIMITS, apart, curves
from benchmarks.ours import FIXED, MIXED, NATURAL, Steps
from benchmarks.packing import PLAIN_IDS
from benchmarks.settings import SMALLEST, Settings
from mmcredit.credit import Record
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View
from mmcredit.types import Rollout

SMALL = replace(SMALLEST, prompts=4, group=4, new_tokens=16)
SAME_LOGP, SAME_GRADIENT = 1e-4, 1e-4  # nats, relative; float32
TORCHRUN, HALF = ("-m", "torch.distributed.run", "--standalone"), ("steps=2", "trainer.strategy.compute=bfloat16")
BF16_LOGP, BF16_ANGLE = 0.1, 0.01  # nats, mean over tokens of about -10; 1 - cosine
STEPS = ("data.batch_size=8", "algorithm.mini_batch=8", "algorithm.micro_batch=1", "rollout.group=4", "steps=5",
         "rollout.max_new_tokens=24", "data.train.size=64", "data.val.val.size=8", "data.val.counter_prior.size=0",
         "logger=csv", "observers=[metrics]", "callbacks=[]", "algorithm.kl_coef=0.05",
         "algorithm.epochs=2", "optimizer.lr=1e-4", "+optimizer.eps=1e-3")  # fmt: skip


@dataclass(frozen=True)
class Place:
    """Where checks run."""

    kind: str  # gpu | cpu
    devices: int
    model: str | None  # None: the shipped tiny one

    def __str__(self) -> str:
        name = torch.cuda.get_device_name(0) if self.kind == "gpu" else "CPU"
        return f"{self.devices} x {name}, torch {torch.__version__}, {self.model or 'tiny model'}"

    def options(self, trainer: str = "") -> list[str]:
        """Overrides that bring a run here, in float32."""
        chosen = f"trainer={trainer or self.kind}"
        named = [] if self.model is None else ["model=hub", f"model.path={self.model}"]
        return [chosen, f"trainer.accelerator={self.kind}", "trainer.precision=32-true", *named]

    def steps(self, *overrides: str) -> Steps:
        """Training steps here."""
        steps = Steps(SMALL, *NATURAL, *MIXED, *FIXED, *self.options(), *overrides)
        assert steps.module.policy.device.type == ("cuda" if self.kind == "gpu" else "cpu")
        return steps


@dataclass(frozen=True)
class Finding:
    """One number against its limit."""

    what: str
    found: float | str = ""
    limit: float | str = ""
    ok: bool | None = None  # None: nothing to judge, or it cannot be judged here

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "MISMATCH", None: "-"}[self.ok]


def at_most(what: str, found: float, limit: float) -> Finding:
    """A finding that is right up to a limit; NaN is not."""
    return Finding(what, found, limit, found <= limit)


def gap(one: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """Distances of the tokens in the mask, nats."""
    return (one - other)[mask].abs().float().cpu()


def logp(scorer: Scorer, rollout: Rollout) -> Tensor:
    """Log-probs, computed anew."""
    scorer.forget()
    return scorer.logp(rollout, View()).clone()


def gradient(scorer: Scorer, rollout: Rollout) -> Tensor:
    """Of the sum of all log-probs, in one vector."""
    scorer.policy.zero_grad()
    scorer.train_scores(rollout).logp_S.sum().backward()
    parts = [p.grad.flatten().double().cpu() for p in scorer.policy.parameters() if p.grad is not None]
    scorer.policy.zero_grad()
    return torch.cat(parts)


def unlikely(steps: Steps) -> Rollout:
    """Sampled responses with other tokens in their places: a model is hardly sure of any, so that rounding shows."""
    rollout = steps.module.sample(steps.encode(), Record())
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(PLAIN_IDS, rollout.mask_BGT.shape, generator=generator).to(rollout.mask_BGT.device)
    return replace(rollout, responses=replace(rollout.responses, ids_BGT=ids * rollout.mask_BGT))


def bf16(where: Place) -> list[Finding]:
    """bfloat16 arithmetic over float32 weights, and bfloat16 weights, against float32; a step in mixed precision."""
    steps = where.steps()
    scorer, device = steps.module.scorer, "cuda" if where.kind == "gpu" else "cpu"
    rollout = unlikely(steps)
    exact, gradients = logp(scorer, rollout), gradient(scorer, rollout)
    with torch.autocast(device, torch.bfloat16):
        mixed, others = logp(scorer, rollout), gradient(scorer, rollout)
    scorer.policy.to(torch.bfloat16)
    pure = logp(scorer, rollout)
    run = where.steps("trainer.precision=bf16-mixed")
    run()
    assert run.module.report is not None
    norm = float(run.module.report.record.scalars["train/grad_norm"])
    angle = 1 - float(gradients @ others / (gradients.norm() * others.norm()))
    apart = {"arithmetic": gap(exact, mixed, rollout.mask_BGT), "weights": gap(exact, pure, rollout.mask_BGT)}
    return [
        *(at_most(f"mean |log-prob difference|, bf16 {name}", float(d.mean()), BF16_LOGP) for name, d in apart.items()),
        at_most("1 - cosine of gradients, bf16 arithmetic", angle, BF16_ANGLE),
        Finding("gradient norm of a step in bf16-mixed", norm, "finite, above 0", 0 < norm < float("inf")),
    ]


def packed(where: Place) -> list[Finding]:
    """Rows that share prompts against padded rows."""
    steps = where.steps()
    scorer, rollout, found = steps.module.scorer, unlikely(steps), []
    for shared in (True, False):
        scorer.packed = shared
        found.append((logp(scorer, rollout), gradient(scorer, rollout)))
    (logps, gradients), (others, padded) = found
    largest = float(gap(logps, others, rollout.mask_BGT).max())
    return [
        at_most("largest |log-prob difference|, shared - padded rows", largest, SAME_LOGP),
        at_most("relative gradient difference", float((gradients - padded).norm() / padded.norm()), SAME_GRADIENT),
    ]


def flex(where: Place) -> list[Finding]:
    """Block masks against dense ones, and against padded rows."""
    from benchmarks.gpu_flex import compare

    steps = where.steps()
    return compare(where, steps.module.scorer, unlikely(steps))


def fsdp(where: Place) -> list[Finding]:
    """Whole runs under torchrun, shared out over 1, 2, 4, ... ranks, against one plain process."""
    found, counts = list[Finding](), [n for n in (1, 2, 4, 8, 16) if n <= where.devices]
    with tempfile.TemporaryDirectory() as folder:
        alone = curves(Path(folder) / "alone", [], *STEPS, *where.options())
        for n in counts:
            options = (*STEPS, *where.options("fsdp"), f"trainer.devices={n}")
            shared = curves(Path(folder) / str(n), [*TORCHRUN, f"--nproc-per-node={n}"], *options)
            for name, limit in LIMITS.items():
                found.append(
                    at_most(f"{name}, largest relative difference, {n} ranks", apart(alone, shared, name), limit)
                )
        half = curves(Path(folder) / "bf16", [*TORCHRUN, f"--nproc-per-node={n}"], *options, *HALF)
        norm = max(half["train/grad_norm"])
        found.append(Finding(f"train/grad_norm in bf16, {n} ranks", norm, "finite, above 0", 0 < norm < float("inf")))
    return found


def vllm(where: Place, spread: bool = False) -> list[Finding]:
    """vLLM in this process, or spread over two, against the Hugging Face engine: greedy tokens, log-probs after an
    update, sleep, wake."""
    if importlib.util.find_spec("vllm") is None:
        return [Finding("skipped: vLLM is not installed (docs/vllm.md)")]
    if spread:
        from benchmarks.gpu_vllm_ranks import compare_ranks

        return compare_ranks(where)
    from benchmarks.gpu_vllm import compare

    steps = where.steps("model.policy.dtype=float32")
    return compare(where, steps.module.policy, steps.run.processor, steps.encode())


def trl(where: Place) -> list[Finding]:
    """Step time against TRL's GRPOTrainer, steps in turn; the numbers of tokens must agree."""
    if importlib.util.find_spec("trl") is None:
        return [Finding("skipped: trl is not installed; pip install -e '.[bench]' brings it")]
    from benchmarks.peers import duel

    size = SMALLEST if where.kind == "cpu" else Settings()
    row = duel(replace(size, new_tokens=3 if where.kind == "cpu" else 32), 0.0, *where.options())
    return [Finding("TRL's seconds over ours, a step (timing, not judged)", float(row["trl/ours"]))]


CHECKS: dict[str, Callable[[Place], list[Finding]]] = {
    "bf16": bf16, "packed": packed, "flex": flex, "fsdp": fsdp, "trl": trl, "vllm": vllm,
    "vllm_parallel": partial(vllm, spread=True),
}  # fmt: skip
