"""vLLM itself on two ranks: spread over both, or one on each; against the Hugging Face engine, and in whole runs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from common import TEMPLATE, WORLD
from ranks import on_two_ranks

pytest.importorskip("vllm")
from test_real_vllm import GREEDY, SMALL, gap, move

import mmcredit.models
from mmcredit.data.encode import Encoder
from mmcredit.models.load import load_policy
from mmcredit.models.processor import load_processor
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.vllm import VLLMEngine
from mmcredit.rollout.vllm_core import Core
from mmcredit.rollout.vllm_group import colocated
from mmcredit.types import Prompts, Sample

pytestmark = pytest.mark.slow

TINY = str(Path(mmcredit.models.__file__).parent / "tiny_qwen3vl")
LIMIT = 1800  # seconds


def asked() -> Prompts:
    """One picture, two pictures of other sizes, none, one."""
    one, two, three, four = (WORLD[i] for i in range(4))
    wide = two.images[0].resize((192, 96))
    samples = [one, Sample("two", (wide, three.images[0]), "how many?", "2", ""), Sample("text", (), "how many?", "2", "")]
    return Encoder(load_processor(TINY), TEMPLATE)([*samples, four])


def greedy(policy: VisionLanguageModel, prompts: Prompts, core: Core) -> tuple[list[list[int]], ...]:
    """The same responses by vLLM and by the Hugging Face engine."""
    engines = (VLLMEngine(GREEDY, 0, core), HFEngine(GREEDY, 0))
    return tuple([y.tolist() for (y,) in engine.generate(policy, prompts, 0).ids] for engine in engines)


def measure(size: int, rank: int) -> dict[str, Any]:
    """On each rank: rank 0 has three prompts, rank 1 one; then rank 1 none; then both none."""
    policy, prompts = load_policy(TINY).eval(), asked()
    mine = prompts.select(slice(3) if rank == 0 else slice(3, 4))
    core = colocated(TINY, images=2, tensor_parallel_size=size, **SMALL)
    found: dict[str, Any] = {"greedy": [greedy(policy, mine, core)], "gaps": [gap(policy, mine, core)]}
    move(policy.parameters(), 0.02)
    found["greedy"].append(greedy(policy, mine, core))
    found["gaps"].append(gap(policy, mine, core))
    engine = VLLMEngine(GREEDY, 0, core)
    before = engine.generate(policy, mine, 0)
    move(policy.family.vision_tower(policy.hf).parameters(), 0.2)
    after = engine.generate(policy, mine, 0)
    found["same"] = [
        torch.equal(a, c) and torch.allclose(b, d)
        for (a,), (b,), (c,), (d,) in zip(before.ids, before.logps, after.ids, after.logps, strict=True)
    ]
    found["greedy"].append(greedy(policy, mine, core))
    found["gaps"].append(gap(policy, mine, core))
    found["some"] = len(engine.generate(policy, mine if rank == 0 else mine.select(slice(0)), 0).ids)
    found["none"] = len(engine.generate(policy, mine.select(slice(0)), 0).ids)
    return found


@pytest.fixture(scope="module", params=[2, 1], ids=["one vLLM over both", "one on each"])
def found(request, tmp_path_factory) -> list[dict[str, Any]]:
    return on_two_ranks(partial(measure, request.param), tmp_path_factory.mktemp("ranks"), LIMIT)


def test_greedy_tokens_are_those_of_the_other_engine(found):
    """Before an update, after it, and after one of the vision tower alone; one picture, two pictures, none."""
    for rank, prompts in enumerate((3, 1)):
        for theirs, ours in found[rank]["greedy"]:
            assert theirs == ours and len(ours) == prompts


def test_log_probs_agree_before_and_after_updates(found):
    print("largest differences of log-probs:", [rank["gaps"] for rank in found])
    assert max(max(rank["gaps"]) for rank in found) < 1e-3


def test_a_picture_seen_before_is_seen_anew_by_another_vision_tower(found):
    assert [rank["same"] for rank in found] == [[False, False, True], [False]]


def test_ranks_without_prompts_wait_for_nobody(found):
    assert [(rank["some"], rank["none"]) for rank in found] == [(3, 0), (0, 0)]
