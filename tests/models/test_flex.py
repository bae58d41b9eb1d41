"""Block masks say what dense masks say; their attention says what SDPA says, and steps aside where it does not."""

from __future__ import annotations

import random
from functools import partial

import pytest
import torch
from omegaconf import OmegaConf
from torch.nn.attention.flex_attention import create_block_mask, create_mask
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache

from mmcredit.checks import check_attention as check_config
from mmcredit.models import flex
from mmcredit.models.layout import Row, common_prefixes, dense_mask, lay_out
from mmcredit.models.load import export, frozen_copy, load_policy
from mmcredit.scoring.startup import check_attention
from mmcredit.types import UserError

CPU, PAD = torch.device("cpu"), 0


def random_rows(seed: int) -> list[Row]:
    """Up to three prompts; responses of two different tokens, so that many begin alike or are beginnings of others."""
    draw, rows = random.Random(seed), []
    for _ in range(draw.randint(1, 3)):
        prompt = torch.arange(1, 1 + draw.randint(1, 30))
        positions = torch.arange(len(prompt)).expand(3, -1)
        responses = [[draw.choice((40, 41)) for _ in range(draw.randint(1, 12))] for _ in range(draw.randint(0, 6))]
        shared = tuple(common_prefixes(responses)) if draw.random() < 0.7 else None
        rows.append(Row(prompt, positions, None, tuple(map(torch.tensor, responses)), shared=shared))
    return rows


def seen_by_path(rows: list[Row], length: int, left_pad: bool) -> torch.Tensor:
    """[R, L, L] bool, by the definition: a token sees the prompt up to itself, or all of it and its response so far;
    padding sees itself."""
    sees = torch.eye(length, dtype=torch.bool).repeat(len(rows), 1, 1)
    for r, row in enumerate(rows):
        base = length - row.tokens if left_pad else 0
        path = list(range(base, base + len(row.prompt_L)))
        for n, place in enumerate(path):
            sees[r, place, path[: n + 1]] = True
        end, paths = base + len(path), [path]
        for y, first in zip(row.responses, row.starts, strict=True):
            own = list(range(end, end + len(y) - first))
            paths.append(paths[-1][: len(path) + first] + own)
            end += len(own)
            for n, place in enumerate(paths[-1]):
                sees[r, place, paths[-1][: n + 1]] = True
    return sees


@pytest.mark.parametrize("left_pad", [False, True])
def test_masks_are_what_the_tree_of_responses_says(left_pad):
    shared = 0
    for seed in range(60):
        rows = random_rows(seed)
        ends_RL = lay_out(rows, PAD, left_pad).ends_RL
        count, length = ends_RL.shape
        expected = seen_by_path(rows, length, left_pad)
        shared += sum(map(sum, (row.starts for row in rows)))
        assert torch.equal(dense_mask(ends_RL, torch.float32)[:, 0] == 0, expected)
        found = create_mask(flex.block_mask(ends_RL).mask_mod, count, 1, length, length, device="cpu")
        assert torch.equal(found[:, 0], expected)
    assert shared > 100, "responses must share beginnings"


def sorted_blocks(mask):
    """Partial and full blocks of each block of queries, and of each block of keys."""
    parts = (
        (mask.kv_num_blocks, mask.kv_indices), (mask.full_kv_num_blocks, mask.full_kv_indices),
        (mask.q_num_blocks, mask.q_indices), (mask.full_q_num_blocks, mask.full_q_indices),
    )  # fmt: skip
    return [
        [sorted(row[:n].tolist()) for n, row in zip(counts.flatten(), indices.flatten(0, -2), strict=True)]
        for counts, indices in parts
    ]


@pytest.mark.parametrize("block", [1, 4, 16])
def test_blocks_are_those_of_the_mask_as_a_whole(block):
    full = 0
    for seed in range(40):
        ends_RL = lay_out(random_rows(seed), PAD, left_pad=bool(seed % 2)).ends_RL
        count, length = ends_RL.shape
        found = flex.block_mask(ends_RL, block)
        whole = create_block_mask(found.mask_mod, count, None, length, length, device="cpu", BLOCK_SIZE=block)
        if block == 1:  # every visible block is full, and called partial on the diagonal: the same blocks all told
            assert torch.equal(found.to_dense(), whole.to_dense())
        else:
            assert sorted_blocks(found) == sorted_blocks(whole)
            full += int(found.full_kv_num_blocks.sum())
        assert found.shape == (count, 1, length, length)
    assert block != 4 or full > 100, "blocks that need no mask must occur"


@pytest.fixture
def flexible(policy):
    """The shared policy, given block masks where they can be used."""
    flex.choose(policy.hf, flex.NAME)
    yield policy
    flex.choose(policy.hf, "sdpa")


def test_block_masks_equal_dense_ones(flexible, block_masks, make_rollout, make_scorer):
    """Log-probs of shared rows, beginnings shared, and of padded rows, padding left or right."""
    rollout = make_rollout(seed=3, group=4)
    for packed in (True, False):
        scorer, calls = make_scorer(packed=packed), block_masks.count
        assert check_attention(rollout, scorer) <= 1e-5
        assert block_masks.count > calls and flex.chosen(flexible.hf, CPU)


def test_gradients_equal_those_of_dense_masks(flexible, block_masks, make_rollout, make_scorer):
    """By PyTorch's reference of the backward pass; the kernel for GPUs is another one."""
    rollout, found = make_rollout(seed=4, group=4), []
    for name in (flex.NAME, "sdpa"):
        flex.choose(flexible.hf, name)
        flexible.zero_grad()
        make_scorer(packed=True).train_scores(rollout).logp_S.sum().backward()
        found.append(torch.cat([p.grad.flatten() for p in flexible.parameters()]))
    flexible.zero_grad()
    assert block_masks.count and (found[0] - found[1]).norm() <= 1e-5 * found[1].norm()


def test_bfloat16_arithmetic_goes_through(flexible, block_masks, make_rollout, make_scorer):
    """Keys and queries may come in float32, values in bfloat16."""
    with torch.autocast("cpu", torch.bfloat16):
        difference = check_attention(make_rollout(), make_scorer())
    assert 0 < difference < 0.1 and block_masks.dtypes == {torch.bfloat16}


def test_a_cache_has_dense_masks(flexible, block_masks):
    ends_RL = torch.tensor([[2, 2]], dtype=torch.int32)
    assert isinstance(flex.mask(flexible.hf, ends_RL, torch.float32, None), flex.BlockMask)
    dense = flex.mask(flexible.hf, ends_RL, torch.float32, DynamicCache(config=flexible.hf.config))
    assert torch.equal(dense, dense_mask(ends_RL, torch.float32))


def test_a_cpu_has_dense_masks(flexible, make_rollout, make_scorer, monkeypatch):
    monkeypatch.setattr(flex, "block_mask", None)
    make_scorer().train_scores(make_rollout()).logp_S.sum().backward()
    flexible.zero_grad()


def test_where_it_has_no_backward_pass_it_falls_back_loudly(flexible, monkeypatch, caplog, make_rollout, make_scorer):
    """PyTorch refuses on CPUs, if asked."""
    monkeypatch.setattr(flex, "DEVICES", {"cpu"})
    flex.agrees.cache_clear()
    with caplog.at_level("WARNING"):
        make_scorer().train_scores(make_rollout()).logp_S.sum().backward()
        make_scorer().train_scores(make_rollout()).logp_S.sum().backward()
    flexible.zero_grad()
    flex.agrees.cache_clear()
    assert caplog.text.count("does not support backward on CPU") == caplog.text.count("falling back to SDPA") == 1


def leaking(ends_RL):
    """Responses see the ones before them."""
    return torch.full_like(ends_RL, ends_RL.shape[1])


def test_another_answer_than_SDPAs_falls_back_loudly(flexible, block_masks, monkeypatch, caplog):
    right = flex.block_mask
    assert flex.takes(flexible.hf, CPU, torch.float32)
    flex.agrees.cache_clear()
    monkeypatch.setattr(flex, "block_mask", lambda ends_RL: right(leaking(ends_RL)))
    for dtype in (torch.float32, torch.bfloat16):
        assert flex.disagreement(CPU, dtype, 4, 2, 16) > 0.1
    with caplog.at_level("WARNING"):
        assert not flex.takes(flexible.hf, CPU, torch.float32)
    assert "differs from SDPA by" in caplog.text and "falling back to SDPA" in caplog.text


def test_other_log_probs_than_SDPAs_fall_back_loudly(
    flexible, block_masks, monkeypatch, caplog, make_rollout, make_scorer
):
    """What is right for random numbers may be wrong in a model."""
    right = flex.block_mask
    assert flex.takes(flexible.hf, CPU, torch.float32)
    monkeypatch.setattr(flex, "block_mask", lambda ends_RL: right(leaking(ends_RL)))
    with caplog.at_level("WARNING"):
        assert check_attention(make_rollout(), make_scorer(packed=True)) > 1e-3
    assert not flex.chosen(flexible.hf, CPU) and "falling back to SDPA" in caplog.text
    assert check_attention(make_rollout(), make_scorer(packed=True)) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("heads", "key_heads"), [(4, 4), (6, 2), (7, 1)])
def test_the_check_passes_where_all_is_right(block_masks, dtype, heads, key_heads):
    limit = {torch.float32: 1e-5, torch.bfloat16: 1e-2}[dtype]
    with torch.inference_mode():
        assert flex.disagreement(CPU, dtype, heads, key_heads, 16) <= limit


def test_copies_and_exports(flexible, processor, tmp_path):
    """A copy attends likewise; a file names no attention of ours."""
    assert frozen_copy(flexible).hf.config.get_text_config()._attn_implementation == flex.NAME
    assert flexible.hf.config.vision_config._attn_implementation == "sdpa"
    export(flexible, processor, tmp_path / "policy")
    assert flex.NAME not in (tmp_path / "policy" / "config.json").read_text()
    for wanted, found in {"auto": "sdpa", "sdpa": "sdpa", "flex": flex.NAME}.items():
        policy = load_policy(str(tmp_path / "policy"), attention=wanted)
        assert policy.hf.config.get_text_config()._attn_implementation == found
    with pytest.raises(UserError, match="use auto, sdpa, flex"):
        load_policy(str(tmp_path / "policy"), attention="flash")


def test_it_is_refused_where_it_cannot_train():
    def cfg(attention, accelerator):
        return OmegaConf.create(
            {"model": {"policy": {"attention": attention}}, "trainer": {"accelerator": accelerator}}
        )

    for allowed in (("auto", "cpu"), ("sdpa", "cpu"), ("flex", "gpu")):
        check_config(cfg(*allowed))
    with pytest.raises(UserError, match=r"use model\.policy\.attention=auto or sdpa"):
        check_config(cfg("flex", "cpu"))


def compiled_equals_sdpa(lengths, trained):
    """Rows of several blocks through ``_compiled``, made anew; outputs, and gradients if they are wanted."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    flex._compiled.cache_clear()
    run, draw = flex._compiled(), torch.Generator().manual_seed(0)
    for length in lengths:
        ends_RL = torch.full((3, length), length, dtype=torch.int32)
        for r, (start, end) in enumerate(((20, 140), (129, 290), (1, 260))):
            ends_RL[r, start:end] = end
        inputs = [torch.randn(3, heads, length, 16, generator=draw, requires_grad=trained) for heads in (4, 2, 2)]
        query, *others = inputs
        wide_key, wide_value = (part.repeat_interleave(2, 1) for part in others)
        outs = (
            run(*inputs, block_mask=flex.block_mask(ends_RL), enable_gqa=True),
            scaled_dot_product_attention(query, wide_key, wide_value, dense_mask(ends_RL, torch.float32)),
        )
        torch.testing.assert_close(*outs, atol=1e-5, rtol=0)
        if trained:
            slope = torch.randn(outs[0].shape, generator=draw)
            for ours, theirs in zip(*(torch.autograd.grad(out, inputs, slope) for out in outs), strict=True):
                assert (ours - theirs).norm() <= 1e-5 * theirs.norm()
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    flex._compiled.cache_clear()


@pytest.mark.slow
def test_compiled_kernels_go_by_blocks_and_are_made_once_for_all_lengths():
    """Of the forward pass, which PyTorch can compile for a CPU."""
    compiled_equals_sdpa((700, 300, 517, 901), trained=False)


@pytest.mark.slow
def test_traced_gradients_are_made_once_for_all_lengths(block_masks, monkeypatch):
    """The graphs of both passes that a GPU's kernels are made from, run by PyTorch's references."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    compiled_equals_sdpa((700, 300), trained=True)
