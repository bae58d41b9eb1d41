"""The in-process engine samples what the model's own law says, whatever else is in the batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.scoring.views import View
from mmcredit.types import Prompts


def part(prompts: Prompts, chosen: list[int]) -> Prompts:
    fields = (prompts.samples, prompts.ids, prompts.pixels, prompts.grids)
    return Prompts(*(tuple(field[i] for i in chosen) for field in fields))


def flat(sampled: list[list[torch.Tensor]]) -> list[list[int]]:
    return [y.tolist() for group in sampled for y in group]


def test_greedy_equals_generate(policy, prompts):
    """Tokens of ``generate`` with the same tokens forbidden, for one picture, two pictures and text."""
    ours = HFEngine(SamplingLaw(1, 0.0, 1.0, 12), seed=0).generate(policy, prompts, 0).ids
    for b in range(len(prompts)):
        ids = prompts.ids[b][None]
        pictures = {}
        if prompts.pixels[b] is not None:
            kinds = (ids == policy.hf.config.image_token_id).int()
            pictures = {
                "pixel_values": prompts.pixels[b], "image_grid_thw": prompts.grids[b], "mm_token_type_ids": kinds,
            }  # fmt: skip
        out = policy.hf.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12,
            suppress_tokens=policy.forbidden_ids.tolist(), **pictures,
        )  # fmt: skip
        assert ours[b][0].tolist() == out[0, ids.shape[1] :].tolist()


def test_a_response_depends_on_its_own_name_alone(policy, prompts):
    """The same responses in any batch, order, chunk and group."""
    law = SamplingLaw(3, 1.0, 1.0, 8)
    whole = HFEngine(law, seed=7).generate(policy, prompts, 2).ids
    order = [3, 1, 0, 2]
    shuffled = HFEngine(law, seed=7, batch=3).generate(policy, part(prompts, order), 2).ids
    for place, b in enumerate(order):
        assert flat([shuffled[place]]) == flat([whole[b]])
    wider = HFEngine(SamplingLaw(5, 1.0, 1.0, 8), seed=7).generate(policy, prompts, 2).ids
    assert flat([group[:3] for group in wider]) == flat(whole)


def test_seed_step_and_group_member_change_the_draw(policy, prompts):
    law = SamplingLaw(2, 1.0, 1.0, 8)
    base = HFEngine(law, seed=0).generate(policy, prompts, 0).ids
    assert flat(base) == flat(HFEngine(law, seed=0).generate(policy, prompts, 0).ids)
    assert flat(base) != flat(HFEngine(law, seed=1).generate(policy, prompts, 0).ids)
    assert flat(base) != flat(HFEngine(law, seed=0).generate(policy, prompts, 1).ids)
    assert base[0][0].tolist() != base[0][1].tolist()


def test_global_generator_is_neither_used_nor_moved(policy, prompts):
    engine = HFEngine(SamplingLaw(2, 1.0, 1.0, 6), seed=0)
    torch.manual_seed(1)
    first, state = engine.generate(policy, prompts, 0).ids, torch.get_rng_state()
    torch.manual_seed(2)
    assert flat(engine.generate(policy, prompts, 0).ids) == flat(first)
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


def test_vision_tokens_are_never_sampled_even_if_the_model_wants_them(policy, prompts, monkeypatch):
    wanted = policy.forbidden_ids

    def eager(hidden: torch.Tensor) -> torch.Tensor:
        logits = policy.hf.get_output_embeddings()(hidden).float()
        logits[:, wanted] += 100
        return logits

    monkeypatch.setattr(policy, "logits", eager)
    for temperature, group in ((1.0, 4), (0.0, 1)):
        engine = HFEngine(SamplingLaw(group, temperature, 1.0, 8), seed=0)
        sampled = torch.tensor([t for y in flat(engine.generate(policy, prompts, 0).ids) for t in y])
        assert not torch.isin(sampled, wanted).any()


def test_end_token_ends_and_belongs_to_the_response(policy, prompts, monkeypatch):
    end = int(policy.end_ids[0])

    def soon(hidden: torch.Tensor) -> torch.Tensor:
        logits = policy.hf.get_output_embeddings()(hidden).float()
        logits[:, end] = logits.logsumexp(-1)  # about one half
        return logits

    monkeypatch.setattr(policy, "logits", soon)
    sampled = flat(HFEngine(SamplingLaw(8, 1.0, 1.0, 10), seed=0).generate(policy, prompts, 0).ids)
    lengths = [len(y) for y in sampled]
    assert min(lengths) == 1 and 1 < max(lengths) <= 10
    for y in sampled:
        assert end not in y[:-1]
        assert y[-1] == end or len(y) == 10


def test_frequencies_follow_the_scored_probabilities(policy, prompts, make_rollout, make_scorer, processor):
    """First tokens of 2,000 draws against exp(logp) of the scorer: within 5 standard errors."""
    count = 2000
    engine = HFEngine(SamplingLaw(count, 1.0, 1.0, 1), seed=3)
    first = torch.tensor([y[0] for y in flat(engine.generate(policy, part(prompts, [0]), 0).ids)])
    values, hits = first.unique(return_counts=True)
    common = values[hits.argsort(descending=True)[:3]]
    rollout = make_rollout(group=len(common), shown=part(prompts, [0]))
    ids = rollout.responses.ids_BGT.clone()
    ids[0, :, 0] = common
    rollout = replace(rollout, responses=replace(rollout.responses, ids_BGT=ids))
    p = make_scorer().logp(rollout, View())[0, :, 0].exp()
    for token, probability in zip(common, p, strict=True):
        share = float((first == token).float().mean())
        error = float((probability * (1 - probability) / count).sqrt())
        assert share == pytest.approx(float(probability), abs=5 * error)


def test_log_probs_are_the_scorers_own_in_float32_arithmetic_alone(policy, prompts):
    """Mixed precision rounds decoding and scoring differently, though the weights are float32."""
    engine = HFEngine(SamplingLaw(2, 1.0, 1.0, 4), seed=0)
    assert engine.generate(policy, prompts, 0).exact
    with torch.autocast("cpu", torch.bfloat16):
        assert not engine.generate(policy, prompts, 0).exact
