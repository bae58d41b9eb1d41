"""FlexAttention's block masks against SDPA's dense ones and against padded rows (``benchmarks.gpu_checks``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar
from unittest.mock import patch

import torch

from benchmarks.gpu_checks import SAME_GRADIENT, SAME_LOGP, Finding, Place, at_most, gap, gradient, logp
from benchmarks.packing import random_rollout
from benchmarks.timing import clocked, interleave, middle
from mmcredit.models import flex
from mmcredit.scoring.scorer import Scorer
from mmcredit.types import Rollout

BLOCK, DENSE, PADDED = "block masks", "dense masks", "padded rows"
WAYS = {BLOCK: (flex.NAME, True), DENSE: ("sdpa", True), PADDED: ("sdpa", False)}  # attention, shared rows
LONG = {"gpu": (1000, 500, 8), "cpu": (200, 60, 4)}  # tokens of prompt and response, responses: several blocks
REPETITIONS = 3
Value = TypeVar("Value")


def compare(where: Place, scorer: Scorer, shown: Rollout) -> list[Finding]:
    """Log-probs, gradients, seconds and memory, of ``shown`` with pictures and of long rows of random tokens.

    On a CPU there is no backward pass of FlexAttention, and it is not compiled: log-probs alone.
    """
    hf, device, found = scorer.policy.hf, scorer.policy.device, list[Finding]()
    flex.choose(hf, flex.NAME)
    with everywhere(where):
        if where.kind == "gpu":
            taken = flex.takes(hf, device, scorer.policy.dtype)
            found.append(Finding("agrees with SDPA at first use", str(taken), "True", taken))
        for name, rollout in {"pictures": shown, "long rows": random_rollout(*LONG[where.kind])}.items():
            values = {way: under(scorer, way, partial(logp, scorer, rollout)) for way in WAYS}
            for other in (DENSE, PADDED):
                largest = float(gap(values[BLOCK], values[other], rollout.mask_BGT).max())
                found.append(at_most(f"largest |log-prob difference|, {BLOCK} - {other}, {name}", largest, SAME_LOGP))
            found += gradients(scorer, rollout, name) if where.kind == "gpu" else []
        found += costs(where, scorer, rollout)
    if where.kind == "cpu":
        found.append(Finding("gradients: skipped, PyTorch has no backward pass of FlexAttention on a CPU"))
    return found


@contextmanager
def everywhere(where: Place) -> Iterator[None]:
    """Block masks on a CPU, too, where they are for no training."""
    if where.kind == "gpu":
        yield
        return
    with patch.object(flex, "DEVICES", {"cpu"}), patch.object(flex, "agrees", lambda *_: True):
        yield


def under(scorer: Scorer, way: str, call: Callable[[], Value]) -> Value:
    """What a call gives with this attention and these rows."""
    attention, scorer.packed = WAYS[way]
    flex.choose(scorer.policy.hf, attention)
    return call()


def gradients(scorer: Scorer, rollout: Rollout, name: str) -> list[Finding]:
    """Relative differences of the gradient with block masks from the others."""
    ours, found = under(scorer, BLOCK, partial(gradient, scorer, rollout)), []
    for way in (DENSE, PADDED):
        theirs = under(scorer, way, partial(gradient, scorer, rollout))
        difference = float((ours - theirs).norm() / theirs.norm())
        found.append(at_most(f"relative gradient difference, {BLOCK} - {way}, {name}", difference, SAME_GRADIENT))
    return found


def update(scorer: Scorer, rollout: Rollout) -> None:
    """A forward and a backward pass, to their end."""
    scorer.train_scores(rollout).logp_S.sum().backward()
    scorer.policy.zero_grad()
    torch.cuda.synchronize()


def costs(where: Place, scorer: Scorer, rollout: Rollout) -> list[Finding]:
    """Seconds, and on a GPU the most memory, of the others over those of block masks; not judged."""
    stages: dict[str, Callable[[], object]] = {"scoring": partial(logp, scorer, rollout)}
    if where.kind == "gpu":
        stages["forward and backward"] = partial(update, scorer, rollout)
    found = []
    for stage, call in stages.items():
        calls = {way: partial(measured, scorer, way, call) for way in WAYS}
        runs = interleave(calls, REPETITIONS)
        for way in (DENSE, PADDED):
            for cost in runs[way][0]:
                ratio = middle(runs[way], cost) / middle(runs[BLOCK], cost)
                found.append(Finding(f"{cost} of {stage}, {way} over {BLOCK} (not judged)", ratio))
    return found


def measured(scorer: Scorer, way: str, call: Callable[[], object]) -> dict[str, float]:
    """Seconds, and on a GPU the most bytes held."""
    if not torch.cuda.is_available():
        return {"seconds": under(scorer, way, partial(clocked, call))}
    torch.cuda.reset_peak_memory_stats()
    seconds = under(scorer, way, partial(clocked, call))
    return {"seconds": seconds, "peak memory": float(torch.cuda.max_memory_allocated())}
