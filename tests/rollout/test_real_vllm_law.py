"""vLLM samples by the trainer's law: frequencies of tokens, ends, forbidden tokens, lengths, seeds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from test_real_vllm import SMALL
from torch import Tensor

from mmcredit.models.layout import lay_out
from mmcredit.models.load import export, frozen_copy
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.hf import prompt_rows
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.rollout.vllm import VLLMEngine
from mmcredit.rollout.vllm_core import LocalCore
from mmcredit.types import UserError

pytest.importorskip("vllm")
pytestmark = pytest.mark.slow

LAWS = [SamplingLaw(2000, 1.0, 0.9, 1), SamplingLaw(2000, 1.0, 1.0, 1), SamplingLaw(2000, 0.7, 1.0, 1)]


@pytest.fixture(scope="module", params=[True, False], ids=["temperature 0 or 1", "another"])
def plain(request) -> bool:
    return request.param


@pytest.fixture(scope="module")
def core(plain, policy, processor, tmp_path_factory) -> Iterator[LocalCore]:
    """One vLLM a way of counting log-probs."""
    from vllm.distributed import cleanup_dist_env_and_memory

    folder = tmp_path_factory.mktemp("model") / "policy"
    export(policy, processor, folder)
    core = LocalCore(str(folder), images=2, **SMALL)
    yield core
    core.llm.llm_engine.engine_core.shutdown()
    del core.__dict__["llm"]
    cleanup_dist_env_and_memory()
    gc.collect()


@torch.no_grad()
def first_logits(policy: VisionLanguageModel, prompts: Any) -> Tensor:
    """[B, V] of the first token of a response."""
    rows = prompt_rows(policy, prompts)
    layout = lay_out(rows, policy.pad_id, left_pad=True)
    return policy.logits(policy.hidden_states(layout, [row.features for row in rows])[:, -1])


def test_tokens_come_as_often_as_the_law_says(policy, prompts, core, plain):
    """Chi-squared over tokens expected at least 10 times, and none outside what top-p keeps."""
    for law in (law for law in LAWS if (law.temperature == 1) == plain):
        found = VLLMEngine(law, 3, core).generate(policy, prompts, 0)
        logits = first_logits(policy, prompts)
        p_BV, raw_BV = law.probabilities(logits, policy.forbidden_ids), (logits / law.temperature).log_softmax(-1)
        for b, (ids, logps) in enumerate(zip(found.ids, found.logps, strict=True)):
            tokens = torch.cat(ids)
            assert p_BV[b, tokens].min() > 0
            theirs, ours = torch.cat(logps), raw_BV[b, tokens]
            if not plain:  # vLLM's are without what is forbidden
                ours = p_BV[b, tokens].log().float()
            assert (theirs - ours).abs().max() < 1e-4
            expected, counts = p_BV[b] * len(tokens), tokens.bincount(minlength=p_BV.shape[1])
            often = expected >= 10
            size = int(often.sum())
            statistic = float(((counts - expected)[often] ** 2 / expected[often]).sum())
            assert size > 3 and statistic < size + 5 * (2 * size) ** 0.5, (law, b)


def test_a_cut_distribution_at_another_temperature_is_refused(core, plain):
    with pytest.raises(UserError, match=r"use rollout.top_p=1 or rollout.temperature=1"):
        VLLMEngine(SamplingLaw(2, 0.7, 0.9, 4), 0, core)


def test_responses_depend_on_seed_step_and_sample_alone(policy, prompts, core, plain):
    """Not on the other prompts, their order, or what was sampled before."""
    law = SamplingLaw(3, 1.0 if plain else 0.7, 1.0, 12)

    def sample(seed: int, step: int, order: list[int]) -> dict[int, list[list[int]]]:
        found = VLLMEngine(law, seed, core).generate(policy, prompts.pick(order), step)
        return {b: [y.tolist() for y in group] for b, group in zip(order, found.ids, strict=True)}

    everything = list(range(len(prompts)))
    first = sample(0, 2, everything)
    assert sample(0, 2, everything[::-1]) == first
    assert sample(0, 2, everything[1:2]) == {1: first[1]}
    assert sample(1, 2, everything) != first and sample(0, 3, everything) != first


def test_responses_end_where_the_trainers_do_and_nowhere_else(policy, prompts, core, plain):
    """The tokenizer's own end is one token of many if the trainer does not name it."""
    subject = frozen_copy(policy)
    law = SamplingLaw(8, 1.0 if plain else 0.7, 1.0, 24)
    drawn = torch.cat([y for group in VLLMEngine(law, 0, core).generate(subject, prompts, 0).ids for y in group])
    ends = drawn.bincount().topk(2).indices.tolist()
    subject.hf.generation_config.eos_token_id = ends
    ended = VLLMEngine(law, 0, core).generate(subject, prompts, 0).ids
    for y in (y.tolist() for group in ended for y in group):
        assert not set(y[:-1]) & set(ends)
        assert len(y) == law.max_new_tokens or y[-1] in ends
    tokenizers = policy.end_ids
    with torch.no_grad():
        head = subject.hf.get_output_embeddings().weight
        head[tokenizers] = head[ends[0]].clone()  # as likely as a frequent token
    found = [y for group in VLLMEngine(law, 0, core).generate(subject, prompts, 0).ids for y in group]
    assert any(torch.isin(y[:-1], tokenizers).any() for y in found)


def test_forbidden_tokens_are_never_sampled_however_likely(policy, prompts, core, plain):
    subject = frozen_copy(policy)
    law = SamplingLaw(8, 1.0 if plain else 0.7, 1.0, 24)
    drawn = torch.cat([y for group in VLLMEngine(law, 0, core).generate(subject, prompts, 0).ids for y in group])
    with torch.no_grad():
        head = subject.hf.get_output_embeddings().weight
        head[subject.forbidden_ids] = 2 * head[int(drawn.bincount().argmax())]
    share = first_logits(subject, prompts).softmax(-1)[:, subject.forbidden_ids].sum(-1)
    assert share.max() > 0.2, "the trainer's model would say them"
    found = torch.cat([y for group in VLLMEngine(law, 0, core).generate(subject, prompts, 0).ids for y in group])
    assert not torch.isin(found, subject.forbidden_ids).any()
