"""Two ranks that share one vLLM, with a fake in its place; vLLM itself: tests/rollout/test_real_vllm_parallel.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from common import TEMPLATE, WORLD
from ranks import on_two_ranks
from test_fit import config
from test_vllm import LAW, FakeCore

import mmcredit.models
from mmcredit.checks import check
from mmcredit.data.encode import Encoder
from mmcredit.models.load import load_policy
from mmcredit.models.processor import load_processor
from mmcredit.rollout.vllm import VLLMEngine
from mmcredit.rollout.vllm_core import Reply, Request
from mmcredit.rollout.vllm_group import GroupCore, check_split
from mmcredit.types import Sample, UserError

TINY = str(Path(mmcredit.models.__file__).parent / "tiny_qwen3vl")
PICTURE = WORLD[0].images[0]
SHARES = {"uneven": (3, 1), "none on rank 1": (2, 0), "none on rank 0": (0, 2), "none": (0, 0)}


def requests(rank: int, count: int) -> list[Request]:
    return [Request([rank, n], (PICTURE,) * (n % 2), 10 * rank + n, 2) for n in range(count)]


def plain(asked: list[Request]) -> list[Any]:
    return [(r.ids, r.seed, [(i.mode, i.size, i.tobytes()) for i in r.images]) for r in asked]


def share(rank: int) -> dict[str, Any]:
    found = dict[str, Any]()
    for name, counts in SHARES.items():
        core = FakeCore(lambda n, request: Reply(request.ids, [n, request.seed], [-1.0 * n, -2.0]))
        replies = GroupCore(core, 2).generate(requests(rank, counts[rank]), LAW, [7], [1])
        found[name] = (core.log, plain(core.requests), [reply.ids for reply in replies])
    core = FakeCore()
    GroupCore(core, 1).generate(requests(rank, 2), LAW, [], [])
    found["each its own"] = plain(core.requests)
    try:
        core = FakeCore(lambda n, request: Reply([], [n + rank], [-1.0]))
        GroupCore(core, 2).generate(requests(rank, 1), LAW, [], [])
    except RuntimeError as error:
        found["apart"] = str(error)
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[dict[str, Any]]:
    return on_two_ranks(share, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("name", SHARES)
def test_all_ranks_ask_for_the_same_and_each_keeps_its_own(found, name):
    together = requests(0, SHARES[name][0]) + requests(1, SHARES[name][1])
    for rank, count in enumerate(SHARES[name]):
        log, seen, replies = found[rank][name]
        assert log == (["generate"] if together else [])
        assert seen == plain(together)
        first = rank * SHARES[name][0]
        assert replies == [[first + n, 10 * rank + n] for n in range(count)]


def test_groups_of_one_share_nothing(found):
    assert [rank["each its own"] for rank in found] == [plain(requests(rank, 2)) for rank in range(2)]


def test_ranks_that_sample_different_tokens_stop_the_run(found):
    assert [rank["apart"] for rank in found] == ["ranks 0 to 1 share one vLLM and sampled different tokens"] * 2


def sample(rank: int) -> list[str]:
    policy, encoder = load_policy(TINY), Encoder(load_processor(TINY), TEMPLATE)
    prompts = encoder([Sample("text", (), "how many?", "2", "")] * rank)  # rank 0 has nothing to ask for
    core = FakeCore(lambda n, request: Reply(request.ids, [1], [-1.0]))
    engine = VLLMEngine(LAW, 0, GroupCore(core, 2))
    for moved in (None, 1, None):
        if rank == moved:
            with torch.no_grad():
                next(policy.parameters()).add_(0)
        engine.generate(policy, prompts, 0)
    return core.log


def test_if_weights_moved_on_one_rank_all_ranks_load(tmp_path):
    cycle = ["wake", "generate", "sleep"]
    loads = ["wake", "load", "generate", "sleep"]
    assert on_two_ranks(sample, tmp_path) == [[*loads, *loads, *cycle]] * 2


def test_a_group_of_one_process_is_refused_before_vllm_starts():
    core = FakeCore()
    with pytest.raises(UserError, match=r"tensor_parallel_size=2 must divide .* here 1: 1$"):
        GroupCore(core, 2).wake()
    assert core.log == []


@pytest.mark.parametrize(
    ("size", "ranks", "allowed"),
    [(2, 1, "here 1: 1"), (3, 4, "here 4: 1, 2, 4"), (8, 4, "here 4: 1, 2, 4"), (0, 2, "here 2: 1, 2")],
)
def test_ranks_that_cannot_form_such_groups_are_refused(size, ranks, allowed):
    with pytest.raises(UserError, match=f"tensor_parallel_size={size} must divide the number .*{allowed}$"):
        check_split(size, ranks)


@pytest.mark.parametrize(("size", "ranks"), [(1, 1), (1, 3), (2, 4), (4, 4)])
def test_ranks_that_can_are_not(size, ranks):
    check_split(size, ranks)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["tensor_parallel_size=2"], "here 1: 1"),
        (["tensor_parallel_size=3", "trainer=ddp"], "here 2: 1, 2"),
        (["tensor_parallel_size=two"], "a whole number at least 1"),
    ],
)
def test_a_run_is_refused_before_anything_is_loaded(tmp_path, options, message):
    with pytest.raises(UserError, match=rf"rollout\.engine\.core\.tensor_parallel_size=\S+ must .*{message}"):
        check(config(tmp_path, "rollout=vllm", f"rollout.engine.core.{options[0]}", *options[1:]))
