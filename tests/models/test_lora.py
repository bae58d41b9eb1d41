"""LoRA: adapters begin as nothing, the reference is the model without them, exports say what the policy says."""

from __future__ import annotations

import pytest
import torch
from common import TEMPLATE
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText

from mmcredit.data.encode import Encoder
from mmcredit.models.load import export, frozen_copy, load_policy, reference
from mmcredit.models.lora import WithoutAdapters, adapters, plain_weights
from mmcredit.models.trainable import lora
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View, Weights
from mmcredit.types import UserError

pytest.importorskip("peft")


def adapted(policy: VisionLanguageModel, moved: bool = True, **options) -> VisionLanguageModel:
    """A copy with adapters, which say something if they have ``moved``."""
    mine = frozen_copy(policy).requires_grad_(True)
    lora(mine, **{"r": 4, "alpha": 8, **options})
    mine.feature_cache.watch(mine.family.vision_tower(mine.hf))
    if moved:
        with torch.no_grad():
            for name, parameter in mine.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(len(name)))
    return mine.eval()


def logp(model: VisionLanguageModel, rollout, processor) -> torch.Tensor:
    return Scorer({Weights.OLD: model}, Encoder(processor, TEMPLATE)).logp(rollout, View())


def test_adapters_begin_as_nothing_and_are_all_that_is_trained(policy, make_rollout, processor):
    mine, rollout = adapted(policy, moved=False), make_rollout()
    torch.testing.assert_close(logp(mine, rollout, processor), logp(policy, rollout, processor), atol=0, rtol=0)
    trained = {name for name, p in mine.named_parameters() if p.requires_grad}
    assert trained and all("lora_" in name and "language_model.layers" in name for name in trained)
    kinds = {name.rpartition(".")[2] for name in adapters(mine.hf)}
    assert kinds == {f"{kind}_proj" for kind in ("q", "k", "v", "o", "gate", "up", "down")}


def test_the_same_adapters_on_every_rank_whatever_was_drawn_before(policy):
    torch.manual_seed(1)
    first = adapted(policy, moved=False)
    torch.manual_seed(2)
    second = adapted(policy, moved=False)
    for (name, one), other in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other), name


def test_the_reference_is_the_model_without_them_at_no_memory(policy, make_rollout, processor):
    mine, rollout = adapted(policy), make_rollout()
    scorer = Scorer({Weights.OLD: mine, Weights.REFERENCE: (before := reference(mine))}, Encoder(processor, TEMPLATE))
    assert isinstance(before, WithoutAdapters)
    assert {id(p) for p in before.parameters()} == {id(p) for p in mine.parameters()}
    now = scorer.logp(rollout, View()).clone()
    plain = scorer.logp(rollout, View(weights=Weights.REFERENCE))
    assert torch.equal(plain, logp(policy, rollout, processor))
    assert (now - plain).abs().max() > 1e-2
    scorer.forget()
    assert torch.equal(scorer.logp(rollout, View()), now)  # they are on again
    assert before.feature_cache is mine.feature_cache


def test_a_reference_whose_tower_has_no_adapters_keeps_as_much_as_the_model(policy):
    mine = adapted(policy, vision=True)
    mine.feature_cache.max_bytes = 0
    assert (before := reference(mine)).feature_cache is not mine.feature_cache
    assert before.feature_cache.max_bytes == 0


def test_gradients_reach_adapters_alone(policy, make_rollout, processor):
    mine = adapted(policy).train()
    scorer = Scorer({Weights.OLD: mine}, Encoder(processor, TEMPLATE))
    scorer.train_scores(make_rollout()).logp_S.sum().backward()
    for name, parameter in mine.named_parameters():
        assert (parameter.grad is not None and bool(parameter.grad.any())) == ("lora_" in name), name


@pytest.mark.parametrize("vision", [False, True])
def test_exports_say_what_the_policy_says(policy, make_rollout, processor, tmp_path, vision):
    """Merged, and as peft's adapter on the model before."""
    mine, rollout = adapted(policy, vision=vision), make_rollout()
    export(mine, processor, tmp_path / "policy")
    want = logp(mine, rollout, processor)
    loaded = load_policy(str(tmp_path / "policy"))
    assert not adapters(loaded.hf)
    torch.testing.assert_close(logp(loaded.eval(), rollout, processor), want, atol=1e-4, rtol=0)
    names = load_file(tmp_path / "policy" / "model.safetensors").keys()
    assert "lm_head.weight" not in names and not any("lora" in name or "base_layer" in name for name in names)
    policy.hf.save_pretrained(tmp_path / "before")
    from peft import PeftModel

    hf = AutoModelForImageTextToText.from_pretrained(tmp_path / "before")
    joined = PeftModel.from_pretrained(hf, tmp_path / "policy" / "adapter").merge_and_unload()
    torch.testing.assert_close(logp(VisionLanguageModel(joined).eval(), rollout, processor), want, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"r": 0}, "model.train.r=0 and model.train.alpha=8 must be at least 1"),
        ({"alpha": 0}, "model.train.alpha=0 must be at least 1"),
        ({"targets": ["q_prj"]}, "no 'q_prj' in the model; it has down_proj, gate_proj, k_proj"),
    ],
)
def test_mistakes_are_refused(policy, options, words):
    with pytest.raises(UserError, match=words):
        adapted(policy, **options)


def test_weights_for_an_engine_are_merged_and_whole_under_the_names_of_the_checkpoint(policy):
    mine = adapted(policy)
    found = dict(plain_weights(mine, tied_once=False))
    assert found.keys() == policy.hf.state_dict().keys()
    for name, layer in adapters(mine.hf).items():
        want = layer.base_layer.weight + layer.get_delta_weight("default")
        torch.testing.assert_close(found[f"{name}.weight"], want, atol=1e-6, rtol=0)
    for name, weight in plain_weights(policy):
        assert weight.data_ptr() == policy.hf.state_dict()[name].data_ptr()  # nothing is copied
    assert dict(plain_weights(policy)).keys() == found.keys() - {"lm_head.weight"}


def test_chosen_targets(policy):
    mine = adapted(policy, targets=["q_proj", "v_proj"])
    assert {name.rpartition(".")[2] for name in adapters(mine.hf)} == {"q_proj", "v_proj"}
