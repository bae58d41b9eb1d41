"""Experts of Qwen3-VL in the layout of published checkpoints: in the export, with adapters merged, and for vLLM."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from tiny_families import CASES, Qwen3Moe, build

from mmcredit.models.load import export, load_policy
from mmcredit.models.lora import plain_weights
from mmcredit.models.trainable import lora
from mmcredit.models.vlm import VisionLanguageModel

EXPERTS = {"gate_up_proj": (4, 128, 64), "down_proj": (4, 32, 128)}  # [experts, in, out], gate and up side by side


@pytest.fixture
def moe(processor):
    """(policy, its processor)."""
    return build(Qwen3Moe(), processor.tokenizer), Qwen3Moe().processor(processor.tokenizer)


def agrees(weights: dict[str, torch.Tensor], policy: VisionLanguageModel) -> None:
    """Experts are those of the policy, [in, out]; everything else is as the policy holds it."""
    held, turned = policy.hf.state_dict(), 0
    for name, weight in weights.items():
        if (end := name.rpartition(".")[2]) in EXPERTS and "experts" in name:
            assert tuple(weight.shape) == EXPERTS[end]
            assert torch.equal(weight, held[name].transpose(1, 2))
            turned += 1
        else:
            assert torch.equal(weight, held[name]), name
    assert turned == 2 * len(policy.family.decoder_layers(policy.hf))


def test_for_vllm(moe):
    policy, _ = moe
    weights = dict(plain_weights(policy, tied_once=False))
    agrees(weights, policy)
    assert weights.keys() == policy.hf.state_dict().keys()


def test_an_export_is_published_and_loaded_again(moe, tmp_path):
    policy, processor = moe
    for _ in range(2):  # what was loaded is exported again
        export(policy, processor, tmp_path / "policy")
        agrees(load_file(tmp_path / "policy" / "model.safetensors"), policy)
        again = load_policy(str(tmp_path / "policy"))
        for name, weight in policy.hf.state_dict().items():
            assert torch.equal(again.hf.state_dict()[name], weight), name
        policy = again


def test_an_export_with_adapters(moe, processor, tmp_path):
    pytest.importorskip("peft")
    policy, own = moe
    export(policy, own, tmp_path / "plain")
    adapted = load_policy(str(tmp_path / "plain"), train=lambda p: lora(p, r=2, alpha=4))
    export(adapted, own, tmp_path / "policy")  # adapters begin as 0
    agrees(load_file(tmp_path / "policy" / "model.safetensors"), policy)


@pytest.mark.parametrize("case", [c for c in CASES if c.name != "qwen3_vl_moe"], ids=lambda case: case.name)
def test_other_families_are_sent_as_they_are_held(case, processor):
    policy = build(case, processor.tokenizer)
    held = policy.hf.state_dict()
    for name, weight in plain_weights(policy):
        assert weight.data_ptr() == held[name].data_ptr() and weight.shape == held[name].shape
