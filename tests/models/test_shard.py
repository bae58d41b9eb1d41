"""Every family shared out over two ranks, the second of which has text only: scores, samples and gradients of one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import torch
from common import TEMPLATE, WORLD
from ranks import on_two_ranks
from tiny_families import CASES, build
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp._fully_shard import _fsdp_param_group

from mmcredit.data.encode import Encoder
from mmcredit.models.load import checkpoint_activations, frozen_copy
from mmcredit.models.shard import Sharding, spread_like, whole, whole_weights
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.parts import take
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Rollout, Sample, UserError

FAMILIES = ("qwen3_vl", *(case.name for case in CASES))
SHARES = ([0, 1, 3], [2])  # prompts of each rank
LAW = SamplingLaw(group=2, temperature=1.0, top_p=1.0, max_new_tokens=4)


@dataclass(frozen=True)
class Case:
    """A model as it travels to other processes, and what it is shown."""

    hf: Any
    processor: Any
    rollout: Rollout


@dataclass(frozen=True)
class Found:
    """Of a rank's prompts, in order; gradients and weights whole."""

    logps: list[Tensor]  # before a step, under the reference, after a step
    sampled: list[list[list[int]]]
    gradients: dict[str, Tensor]
    weights: dict[str, Tensor]
    reductions: int  # of gradients over ranks


def measure(case: Case, mine: Sequence[int], mesh: Any = None, **sharding: Any) -> Found:
    policy = VisionLanguageModel(copy.deepcopy(case.hf)).eval()
    reference = frozen_copy(policy)
    with torch.no_grad():
        reference.hf.get_input_embeddings().weight.mul_(1.1)
    weights = dict(policy.hf.named_parameters())
    if mesh is not None:
        Sharding(**sharding)([policy, reference], mesh)
        weights = dict(policy.hf.named_parameters())
    scorer = Scorer({Weights.OLD: policy, Weights.REFERENCE: reference}, Encoder(case.processor, TEMPLATE))
    rollout = take(case.rollout, mine)
    logps = [scorer.logp(rollout, view).clone() for view in (View(), View(weights=Weights.REFERENCE))]
    sampled = [[ids.tolist() for ids in group] for group in HFEngine(LAW, 0).generate(policy, rollout.prompts, 0).ids]
    checkpoint_activations(policy.hf.train())
    reductions = Mock(wraps=_fsdp_param_group.foreach_reduce)
    with patch.object(_fsdp_param_group, "foreach_reduce", reductions), policy.pace.together():
        for b in range(len(mine)):
            scores = scorer.train_scores(rollout.select(slice(b, b + 1)))
            policy.pace.joined(scores.logp_S.sum() * (1 if mesh is None else 2)).backward()
        policy.pace.exchange(policy, Tensor.backward)
    gradients = {name: whole(p.grad).clone() for name, p in weights.items()}
    torch.optim.SGD(policy.parameters(), lr=1e-4).step()  # kept features have to go
    scorer.forget()
    policy.eval()
    logps.append(scorer.logp(rollout, View()).clone())
    return Found(logps, sampled, gradients, dict(whole_weights(policy.hf)), reductions.call_count)


def on_rank(file: Path, rank: int) -> dict[str, Found]:
    torch.set_num_threads(1)
    cases = torch.load(file, weights_only=False)
    mesh = init_device_mesh("cpu", (2,))
    found = {name: measure(case, SHARES[rank], mesh, sync_each=name == FAMILIES[0]) for name, case in cases.items()}
    first = cases[FAMILIES[0]]
    found["bfloat16"] = measure(first, SHARES[rank], mesh, compute="bfloat16", offload_frozen=True)
    return found


@pytest.fixture(scope="module")
def cases(policy, processor, make_rollout) -> dict[str, Case]:
    found = {}
    for case in CASES:
        own = case.processor(processor.tokenizer)
        wide = WORLD[1].images[0].resize((192, 96))
        samples = [WORLD[0], Sample("two", (wide, WORLD[2].images[0]), "which is bigger?", "a", "")]
        samples += [Sample("text", (), "what is one and one?", "2", ""), WORLD[2]]
        shown = make_rollout(seed=2, group=2, shown=Encoder(own, TEMPLATE)(samples))
        found[case.name] = Case(build(case, processor.tokenizer).hf, own, shown)
    return {FAMILIES[0]: Case(policy.hf, processor, make_rollout(seed=2, group=2))} | found


@pytest.fixture(scope="module")
def ranks(cases, tmp_path_factory) -> list[dict[str, Found]]:
    folder = tmp_path_factory.mktemp("ranks")
    torch.save(cases, folder / "cases.pt")
    return on_two_ranks(partial(on_rank, folder / "cases.pt"), folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_two_ranks_find_what_one_finds(name, cases, ranks):
    one = measure(cases[name], range(4))
    for rank, mine in enumerate(SHARES):
        two = ranks[rank][name]
        for found, want in zip(two.logps, one.logps, strict=True):
            torch.testing.assert_close(found, want[mine], atol=1e-5, rtol=0)
        assert two.sampled == [one.sampled[b] for b in mine]
        assert two.gradients.keys() == one.gradients.keys() and two.weights.keys() == one.weights.keys()
        for key, gradient in one.gradients.items():
            atol = 1e-5 * float(gradient.abs().max()) + 1e-6
            torch.testing.assert_close(two.gradients[key], gradient, atol=atol, rtol=1e-4, msg=key)
        for key, weight in one.weights.items():
            torch.testing.assert_close(two.weights[key], weight, atol=1e-6, rtol=0, msg=key)
    assert (one.logps[0] - one.logps[1]).abs().max() > 1e-3 and (one.logps[0] - one.logps[2]).abs().max() > 1e-4


@pytest.mark.slow
def test_bfloat16_arithmetic_leaves_float32_weights_and_gradients(cases, ranks):
    one = measure(cases[FAMILIES[0]], range(4))
    for rank, mine in enumerate(SHARES):
        two = ranks[rank]["bfloat16"]
        difference = (two.logps[0] - one.logps[0][mine]).abs().max()
        assert 1e-4 < difference < 0.3
        assert all(value.dtype == torch.float32 for value in (*two.gradients.values(), *two.weights.values()))
        largest = max(one.gradients, key=lambda key: float(one.gradients[key].norm()))
        a, b = (found.gradients[largest].flatten() for found in (one, two))
        assert torch.cosine_similarity(a, b, 0) > 0.98


@pytest.mark.slow
def test_gradients_are_averaged_once_unless_every_backward_pass_is_to(cases, ranks):
    """Units: layers, vision blocks, and the rest. ``sync_each``: three backward passes and the exchange."""
    for name, case in cases.items():
        model = VisionLanguageModel(case.hf)
        units = len(model.family.decoder_layers(case.hf)) + len(model.family.vision_blocks(case.hf)) + 1
        found = {ranks[rank][name].reductions for rank in range(2)}
        assert found == {units} if name != FAMILIES[0] else len(found) == 1 and units * 3 < max(found) <= units * 4


@pytest.mark.slow
def test_tied_weights_are_given_once(cases, ranks):
    for name, case in cases.items():
        assert case.hf.config.tie_word_embeddings
        assert not any(key.startswith("lm_head") for key in ranks[0][name].weights)


def test_whole_tensors_stay_as_they_are():
    value = torch.ones(3)
    assert whole(value) is value and spread_like(value, torch.zeros(3)) is value


def test_an_unknown_type_is_refused():
    with pytest.raises(UserError, match=r"trainer.strategy.compute='bf16' does not exist; use bfloat16"):
        Sharding(compute="bf16")
