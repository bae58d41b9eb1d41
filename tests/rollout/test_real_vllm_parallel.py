"""vLLM itself on two ranks: spread over both, or one on each; against the Hugging Face engine, and in whole runs."""

from __future__ import annotations

import os
import subprocess
import sys
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
from mmcredit.rollout.vllm_core import Core, launched
from mmcredit.rollout.vllm_group import colocated
from mmcredit.types import Prompts, Sample

pytestmark = pytest.mark.slow

TINY = str(Path(mmcredit.models.__file__).parent / "tiny_qwen3vl")
LIMIT = 1800  # seconds


def asked() -> Prompts:
    """One picture, two pictures of other sizes, none, one."""
    one, two, three, four = (WORLD[i] for i in range(4))
    wide = two.images[0].resize((192, 96))
    samples = [
        one,
        Sample("two", (wide, three.images[0]), "how many?", "2", ""),
        Sample("text", (), "how many?", "2", ""),
    ]
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
    found["environment"] = "RANK" in os.environ
    found["memory"] = os.environ["VLLM_DIST_IDENT"]
    return found


@pytest.fixture(scope="module", params=[2, 1], ids=["one vLLM over both", "one on each"])
def found(request, tmp_path_factory) -> list[dict[str, Any]]:
    found = on_two_ranks(partial(measure, request.param), tmp_path_factory.mktemp("ranks"), LIMIT)
    for left in Path("/dev/shm").glob(f"{found[0]['memory']}-*"):
        left.unlink()  # these processes end abruptly
    return found


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


def test_the_environment_is_left_as_it_was(found):
    assert [rank["environment"] for rank in found] == [False, False]


def test_memory_that_ranks_share_has_another_name_in_every_run(tmp_path):
    """vLLM creates it anew and refuses one that is there: of another run, or of one that was killed."""
    first, second = (on_two_ranks(named, tmp_path / name) for name in ("first", "second"))
    assert first[0] == first[1] != second[0] == second[1]
    assert first[0][0] == "env" and first[0][1] == "//" and len(first[0][2]) == 16


def named(rank: int) -> list[str]:
    with launched() as executor:
        return executor._distributed_args(object.__new__(executor))[0].split(":")


RUNS = {
    "ddp, one vLLM over both": ["trainer=ddp", "rollout.engine.core.tensor_parallel_size=2"],
    "ddp, one on each": ["trainer=ddp"],
    "fsdp, one vLLM over both": ["trainer=fsdp", "rollout.engine.core.tensor_parallel_size=2"],
    "fsdp, one on each": ["trainer=fsdp"],
    "lora": ["model/train=lora", "optimizer.lr=1e-2"],  # adapters move the responses; unmerged, the run is stopped
}
STEPS = ["rollout=vllm", "steps=5", "data.batch_size=4", "algorithm.mini_batch=4", "algorithm.micro_batch=2"]
STEPS += ["data.val.val.size=6", "data.val.counter_prior.size=1", "data.val_batch_size=3", "optimizer.lr=1e-3"]
STEPS += ["rollout.engine.core.max_model_len=512", "rollout.engine.core.dtype=float32", "logger=csv"]
STEPS += ["rollout.engine.core.max_num_seqs=32", "+rollout.engine.core.enforce_eager=true"]


@pytest.mark.parametrize("name", RUNS)
def test_a_whole_run(tmp_path, name):
    """Validation of one sample, too, of which one rank has none."""
    if name == "lora":
        pytest.importorskip("peft")
    command = [sys.executable, "-m", "mmcredit.fit", *STEPS, *RUNS[name], f"hydra.run.dir={tmp_path}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr[-2000:]
    (table,) = tmp_path.rglob("metrics.csv")
    header, *lines = [line.split(",") for line in table.read_text().splitlines()]
    gaps = [float(line[header.index("mismatch/max")]) for line in lines if line[header.index("mismatch/max")]]
    print(name, "largest differences of log-probs:", gaps)
    assert len(gaps) == 5 and max(gaps) < 1e-3
