"""The export is a model of Hugging Face's own: same logits bit by bit, same settings, nothing twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from common import TEMPLATE, WORLD
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForImageTextToText, GenerationConfig

import mmcredit.models
from mmcredit.data.encode import Encoder
from mmcredit.models.load import export, load_policy
from mmcredit.models.lora import merged
from mmcredit.models.processor import load_processor
from mmcredit.models.trainable import lora

SHIPPED = Path(mmcredit.models.__file__).parent / "tiny_qwen3vl"
ENDS = [426, 5]


def logits(hf, prompts) -> Tensor:
    """Of a prompt with a picture, by Hugging Face's own forward pass."""
    ids, kinds = prompts.ids[0][None], (prompts.ids[0] == hf.config.image_token_id)[None].long()
    with torch.no_grad():
        return hf(
            input_ids=ids, mm_token_type_ids=kinds, pixel_values=prompts.pixels[0], image_grid_thw=prompts.grids[0],
            attention_mask=torch.ones_like(ids), use_cache=False,
        ).logits  # fmt: skip


@pytest.fixture
def shown():
    """A world question as the shipped model's processor encodes it."""
    return Encoder(load_processor(str(SHIPPED)), TEMPLATE)([WORLD[0]])


def trained(**options):
    """The shipped model with other weights and two end tokens."""
    policy = load_policy(str(SHIPPED), **options).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.requires_grad:
                parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    policy.hf.generation_config.eos_token_id = list(ENDS)
    return policy


def settings(folder: Path, name: str) -> dict:
    content = json.loads((folder / name).read_text())
    return {key: value for key, value in content.items() if key not in ("transformers_version", "_from_model_config")}


def agrees_with_the_shipped(folder: Path) -> None:
    """Configuration, generation settings, processor and names of weights, the tied head once."""
    assert settings(folder, "config.json") == settings(SHIPPED, "config.json")
    generation = settings(SHIPPED, "generation_config.json") | {"eos_token_id": ENDS}
    assert settings(folder, "generation_config.json") == generation
    assert GenerationConfig.from_pretrained(folder).eos_token_id == ENDS
    assert load_processor(str(folder)).tokenizer.chat_template == load_processor(str(SHIPPED)).tokenizer.chat_template
    assert settings(folder, "processor_config.json") == settings(SHIPPED, "processor_config.json")
    names, others = (set(load_file(f / "model.safetensors")) for f in (folder, SHIPPED))
    assert names == others and not any("lm_head" in name for name in names)
    assert not list(folder.parent.glob("*.partial"))


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_same_logits_and_settings(checkpointing, shown, tmp_path):
    policy = trained(gradient_checkpointing=checkpointing)
    for _ in range(2):  # the second takes the place of the first
        export(policy, load_processor(str(SHIPPED)), tmp_path / "policy")
    loaded = AutoModelForImageTextToText.from_pretrained(tmp_path / "policy").eval()
    assert loaded.lm_head.weight is loaded.get_input_embeddings().weight
    assert torch.equal(logits(loaded, shown), logits(policy.hf, shown))
    agrees_with_the_shipped(tmp_path / "policy")


def test_the_same_logits_after_adapters_are_merged(shown, tmp_path):
    """Bit by bit those of the merged weights; to 1e-4 those of the adapted model, which rounds W x + B A x."""
    pytest.importorskip("peft")
    policy = trained(train=lambda p: lora(p, r=4, alpha=8))
    export(policy, load_processor(str(SHIPPED)), tmp_path / "policy")
    loaded = AutoModelForImageTextToText.from_pretrained(tmp_path / "policy").eval()
    plain = AutoModelForImageTextToText.from_pretrained(SHIPPED).eval()
    plain.load_state_dict(dict(merged(policy.hf.state_dict().items(), policy.hf)))
    shipped = AutoModelForImageTextToText.from_pretrained(SHIPPED).eval()
    found, adapted, before = (logits(hf, shown) for hf in (loaded, policy.hf, shipped))
    assert torch.equal(found, logits(plain, shown))
    assert (found - adapted).abs().max() < 1e-4 < (found - before).abs().max()
    assert not any("lora" in name for name in load_file(tmp_path / "policy" / "model.safetensors"))
    agrees_with_the_shipped(tmp_path / "policy")
