"""The engine around vLLM, with the Hugging Face engine in its place; vLLM itself: tests/rollout/test_real_vllm.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from common import TEMPLATE, WORLD
from hydra import compose, initialize_config_module
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf
from tiny_families import CASES, build

from mmcredit.algorithm.sampling_edits import check_sampling
from mmcredit.checks import check_numbers
from mmcredit.credit import CreditCallback
from mmcredit.data.encode import Encoder
from mmcredit.launch import user_error
from mmcredit.models.load import frozen_copy
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.rollout.vllm import VLLMEngine, named_weights, one_placeholder_a_picture
from mmcredit.rollout.vllm_core import LocalCore, Reply, Request
from mmcredit.scoring.edits import PixelMask
from mmcredit.serve import run
from mmcredit.types import UserError

LAW = SamplingLaw(3, 1.0, 1.0, 6)


class FakeCore:
    """Answers what it is told to, and writes down what it is asked."""

    def __init__(self, answer=lambda n, request: Reply([], [1], [-1.0])) -> None:
        self.answer, self.held, self.log = answer, [], list[str]()
        self.requests: list[Request] = []
        self.weights: dict[str, torch.Tensor] = {}

    def generate(
        self, requests: Sequence[Request], law: SamplingLaw, forbidden: Sequence[int], ends: Sequence[int]
    ) -> list[Reply]:
        self.log.append("generate")
        self.requests, self.forbidden, self.ends = list(requests), list(forbidden), list(ends)
        return [self.answer(n, request) for n, request in enumerate(requests)]

    def count_before_sampling(self, plain: bool) -> None:
        self.plain = plain

    def load(self, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
        self.log.append("load")
        self.weights = {name: weight.clone() for name, weight in weights}

    def sleep(self) -> None:
        self.log.append("sleep")

    def wake(self) -> None:
        self.log.append("wake")


@pytest.fixture
def core(policy, prompts):
    """Replies with what the Hugging Face engine samples."""
    sampled = HFEngine(LAW, seed=0).generate(policy, prompts, 0)
    ids, logps = ([y.tolist() for group in values for y in group] for values in sampled[:2])
    return FakeCore(lambda n, _: Reply(prompts.ids[n // 3].tolist(), ids[n], logps[n]))


def test_responses_come_back_in_groups_with_their_log_probs(policy, prompts, core):
    found = VLLMEngine(LAW, 0, core).generate(policy, prompts, 0)
    want = HFEngine(LAW, seed=0).generate(policy, prompts, 0)
    assert not found.exact
    for got, expected in zip(found[:2], want[:2], strict=True):
        assert [[y.tolist() for y in group] for group in got] == [[y.tolist() for y in group] for group in expected]


def test_requests_name_every_picture_once_and_every_response_has_a_seed(policy, prompts, core):
    engine = VLLMEngine(LAW, 0, core)
    engine.generate(policy, prompts, 4)
    image = policy.hf.config.image_token_id
    assert [len(r.images) for r in core.requests] == [r.ids.count(image) for r in core.requests]
    assert [r.images for r in core.requests[::3]] == [s.images for s in prompts.samples]
    assert [r.length for r in core.requests[::3]] == [len(ids) for ids in prompts.ids]
    assert (core.forbidden, core.ends) == (policy.forbidden_ids.tolist(), policy.end_ids.tolist())
    seeds = [r.seed for r in core.requests]
    assert len(set(seeds)) == len(seeds)
    engine.generate(policy, prompts, 4)
    assert [r.seed for r in core.requests] == seeds
    engine.generate(policy, prompts, 5)
    assert not set(seeds) & {r.seed for r in core.requests}


def test_weights_are_streamed_when_they_moved_and_before_sampling(policy, prompts, core):
    engine = VLLMEngine(LAW, 0, core)
    for _ in range(2):
        engine.generate(policy, prompts, 0)
    engine.single()._sync(policy)
    assert core.log == ["wake", "load", "generate", "sleep", "wake", "generate", "sleep"]
    with torch.no_grad():
        next(policy.parameters()).add_(0)
    engine.generate(policy, prompts, 0)
    assert core.log[-4:] == ["wake", "load", "generate", "sleep"]


def test_another_policy_is_streamed_though_it_has_moved_as_often(policy, prompts, core):
    """As the checkpoints that a diagnostic compares: each has just been loaded."""
    engine, first, second = VLLMEngine(LAW, 0, core), frozen_copy(policy), frozen_copy(policy)
    for subject in (first, first, second, first):
        engine.generate(subject, prompts, 0)
    assert core.log.count("load") == 3


def test_weights_have_the_names_of_the_checkpoint_tied_ones_both(policy):
    weights = dict(named_weights(policy))
    head = policy.hf.get_output_embeddings().weight
    assert head is policy.hf.get_input_embeddings().weight, "the tiny model ties them"
    assert sum(weight.data_ptr() == head.data_ptr() for weight in weights.values()) == 2
    assert set(weights) == set(policy.hf.state_dict())


@pytest.mark.parametrize(
    ("ids", "short"),
    [([1, 9, 9, 9, 2], [1, 9, 2]), ([9, 9, 3, 9, 9], [9, 3, 9]), ([1, 1, 2], [1, 1, 2]), ([], []), ([9], [9])],
)
def test_runs_of_placeholders_become_one(ids, short):
    assert one_placeholder_a_picture(ids, 9) == short


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        ([1, 7, 9, 9, 8, 2], [1, 9, 2]),
        ([7, 9, 8, 7, 9, 9, 8, 3], [9, 9, 3]),
        ([7, 7, 9, 8, 8], [7, 9, 8]),
        ([1, 2], [1, 2]),
    ],
)
def test_tokens_that_vllm_puts_around_a_picture_are_left_out(ids, short):
    assert one_placeholder_a_picture(ids, 9, added=1) == short


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_family_asks_with_the_prompt_before_pictures_were_expanded(case, processor, prompts):
    """What vLLM expands is what the processor expands: the text of the chat template."""
    own, subject = case.processor(processor.tokenizer), build(case, processor.tokenizer)
    encoder, core = Encoder(own, TEMPLATE), FakeCore()
    shown = encoder(prompts.samples)
    asked = VLLMEngine(LAW, 0, core)._requests(subject, shown, 0)
    for request, sample in zip(list(asked)[::3], prompts.samples, strict=True):
        assert request.ids == own.tokenizer(encoder._text(sample.question, len(sample.images))).input_ids


def test_another_prompt_than_the_trainers_is_an_error(policy, prompts):
    core = FakeCore(lambda n, _: Reply([*prompts.ids[n // 3].tolist(), 5], [1], [-1.0]))
    with pytest.raises(RuntimeError, match=r"vLLM made \d+ prompt tokens, the trainer \d+: the two resize"):
        VLLMEngine(LAW, 0, core).generate(policy, prompts, 0)


def test_a_sampled_vision_token_is_an_error(policy, prompts):
    bad = int(policy.forbidden_ids[0])
    core = FakeCore(lambda n, _: Reply(prompts.ids[n // 3].tolist(), [1, bad], [-1.0, -1.0]))
    with pytest.raises(RuntimeError, match=f"sampled the forbidden token {bad}"):
        VLLMEngine(LAW, 0, core).generate(policy, prompts, 0)


def test_cut_distributions_and_edited_pictures_are_refused(policy, prompts):
    with pytest.raises(UserError, match=r"rollout.top_p=0.9 at rollout.temperature=0.7.*or rollout.temperature=1"):
        VLLMEngine(replace(LAW, top_p=0.9, temperature=0.7), 0, FakeCore())

    class Samples(CreditCallback):
        def sampling_edits(self, step):
            return [PixelMask(0.5)]

    with pytest.raises(UserError, match="needs rollout=hf"):
        check_sampling([Samples()], 3, VLLMEngine.edits)
    with pytest.raises(UserError, match="need rollout=hf"):
        VLLMEngine(LAW, 0, FakeCore()).generate(policy, prompts, 0, shares=2)


@pytest.mark.parametrize(("temperature", "top_p", "plain"), [(1.0, 0.9, True), (1.0, 1.0, True), (0.7, 1.0, False)])
def test_log_probs_are_those_that_the_trainer_counts(temperature, top_p, plain):
    """At temperature 1 of the model's own distribution, whatever is cut; else of the one that is sampled from."""
    core = FakeCore()
    VLLMEngine(replace(LAW, temperature=temperature, top_p=top_p), 0, core)
    assert core.plain is plain


@pytest.mark.parametrize(
    ("entry", "core", "overrides", "settings"),
    [
        ("fit", "rollout.engine.core", ["rollout=vllm"], {}),
        ("fit", "rollout.engine.core", ["rollout=vllm", "+model.processor.max_pixels=9"], {"max_pixels": 9}),
        ("serve", "core", ["+model.processor.size={longest_edge: 9}"], {"size": {"longest_edge": 9}}),
    ],
)
def test_vllm_gets_the_trainers_picture_settings(entry, core, overrides, settings, monkeypatch):
    """And the trainer's way of resizing."""
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    with initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = OmegaConf.select(compose(entry, overrides=overrides), core)
    found = instantiate(config).options
    assert found["mm_processor_kwargs"] == {"use_fast": False, **settings}
    assert all(type(value) in (int, dict, bool) for value in found["mm_processor_kwargs"].values())
    assert "pictures" not in found and "processor" not in found


class FakeVLLM(ModuleType):
    """Writes down how it is started and what it is asked."""

    class LLM:
        def __init__(self, **options: Any) -> None:
            self.options, self.model_config = options, SimpleNamespace(max_model_len=options["max_model_len"])

        def generate(self, asked: list[Any], params: list[Any], use_tqdm: bool) -> list[Any]:
            self.params = params
            return []

    class SamplingParams(SimpleNamespace):
        pass


@pytest.fixture
def local(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", FakeVLLM("vllm"))
    core = LocalCore("folder", max_model_len=20)
    core.count_before_sampling(True)
    return core


def asked(pictures: int = 0, length: int = 3) -> list[Request]:
    return [Request([1, 2], (), 5, 3), Request([1, 2], (WORLD[0].images[0],) * pictures, 5, length)]


def test_responses_end_with_the_trainers_ends_alone(local):
    local.generate(asked(), LAW, [7], [3, 4])
    assert [(p.stop_token_ids, p.ignore_eos) for p in local.llm.params] == [([3, 4], True)] * 2


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (asked(pictures=2), "with 2 pictures, and vLLM was started for 1: use rollout.engine.core.images=2 "),
        (asked(length=15), "15 tokens, and rollout.max_new_tokens=6: more than the 20 .*core.max_model_len=21 "),
    ],
)
def test_a_prompt_that_vllm_would_fail_over_or_cut_short_is_refused(local, requests, message):
    local.generate(asked(pictures=1, length=14), LAW, [], [])
    with pytest.raises(UserError, match=message):
        local.generate(requests, LAW, [], [])


def test_log_probs_cannot_be_counted_otherwise_once_vllm_has_started(local):
    """A server that another run has used."""
    local.count_before_sampling(False)
    local.count_before_sampling(True)
    local.generate(asked(), LAW, [], [])
    local.count_before_sampling(True)
    with pytest.raises(UserError, match=r"temperature is neither 0 nor 1, but the server has sampled where it is one"):
        local.count_before_sampling(False)


@pytest.mark.parametrize("entry", ["fit", "evaluate"])
def test_a_response_that_leaves_no_room_for_a_prompt_is_refused_before_anything_is_loaded(entry):
    overrides = ["rollout=vllm", "rollout.max_new_tokens=8192"]
    with initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = compose(entry, overrides=overrides)
        roomy = compose(entry, overrides=[*overrides, "rollout.engine.core.max_model_len=8193"])
    with pytest.raises(UserError, match=r"max_new_tokens=8192 leaves no room .*core.max_model_len=12288$"):
        check_numbers(config)
    check_numbers(roomy)


def test_one_vllm_over_several_processes_is_refused_by_a_server():
    with initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = compose("serve", overrides=["core.tensor_parallel_size=2"])
    with pytest.raises(InstantiationException) as refused:
        run(config)
    assert "tensor_parallel_size=2: a single process runs a whole vLLM; use 1, or" in str(user_error(refused.value))
