"""What a run needs: sizes of the recipes' backbones, memory and tokens by hand, and the command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import hydra
import pytest
import torch

from mmcredit.configs import __file__ as configs
from mmcredit.plan import plan
from mmcredit.planning.architecture import Architecture, measure, model_config, on_meta
from mmcredit.planning.estimate import Plan, estimate
from mmcredit.planning.memory import GIB, Setup, parts, peak
from mmcredit.planning.table import table
from mmcredit.planning.tokens import Load, petaflop
from mmcredit.planning.warning import warn
from mmcredit.types import UserError

SMALL = Architecture("tiny", 10, 100, 40, 2, 8, 16, 5, 32, 16, 2)
BILLIONS = {  # published totals
    "internvl3_5_4b": 4.73, "qwen2_5_vl_3b": 3.75, "qwen2_5_vl_7b": 8.29, "qwen2_5_vl_32b": 33.45, "qwen3_5_9b": 9.41,
    "qwen3_vl_2b": 2.13, "qwen3_vl_2b_thinking": 2.13, "qwen3_vl_8b": 8.77,
}  # fmt: skip


def composed(*overrides: str, name: str = "fit"):
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        return hydra.compose(name, overrides=["run_dir=.", *overrides])


def planned(*overrides: str, gpus: int = 8, gib: float = 80) -> Plan:
    return estimate(composed(*overrides), gpus, gib, pixels=1_003_520, text_tokens=200)


def test_every_backbone_of_the_recipes_is_known():
    names = {p.stem for p in Path(configs).parent.glob("model/*.yaml")}
    assert set(BILLIONS) == {name for name in names if name != "hub" and not name.startswith("tiny")}


@pytest.mark.parametrize("name", BILLIONS)
def test_backbones_build_without_memory_at_their_published_size(name):
    model = on_meta(composed(f"model={name}").model.path)
    assert {p.device.type for p in model.parameters()} == {"meta"}
    size = measure(model)
    assert round(size.total / 1e9, 2) == BILLIONS[name]
    assert size.vision + size.language + size.other == size.total
    assert size.layer * size.layers == pytest.approx(size.language, rel=1e-6)


@pytest.mark.parametrize("name", BILLIONS)
def test_every_decoder_layer_and_vision_block_is_shared_out_by_itself(name):
    """What is gathered alone: nine tenths of the model in pieces of a few hundred million parameters at most."""
    model = on_meta(composed(f"model={name}").model.path)
    units = [*model.family.vision_blocks(model.hf), *model.family.decoder_layers(model.hf)]
    sizes = [sum(p.numel() for p in unit.parameters()) for unit in units]
    total = measure(model)
    assert sum(sizes) + total.other > 0.94 * total.total
    assert max(sizes) < 0.06 * total.total


def test_sizes_of_the_shipped_model_are_those_of_its_weights():
    cfg = composed()
    size = measure(on_meta(cfg.model.path))
    assert 1e6 < size.total < 2e6
    assert (size.patch, size.merge, size.picture_tokens(128 * 128)) == (16, 2, 16)


def test_keys_and_values_are_those_of_full_attention_layers():
    assert measure(on_meta("Qwen/Qwen2.5-VL-7B-Instruct")).cache_per_token == 2 * 28 * 4 * 128
    assert measure(on_meta("Qwen/Qwen3.5-9B")).cache_per_token == 2 * 8 * 4 * 256


def test_an_unknown_model_says_which_are_known():
    with pytest.raises(UserError, match=r"model.path=./nowhere.*known without the hub: InternVL3_5-4B-HF, Qwen2.5"):
        model_config("./nowhere")


def test_memory_by_hand():
    setup = Setup(
        gpus=4, weight_bytes=4, compute_bytes=2, trained=150, gradients_shared=True, copies=2, offloaded=False,
        checkpointing=False, row_tokens=10, decoded=3, context=7, engine_share=0.5, cache_in_trainer=True,
    )  # fmt: skip
    found = {name: size * GIB for name, size in parts(SMALL, setup, 1.0).items()}
    assert found["weights"] == pytest.approx(150)
    assert found["gradients"] == pytest.approx(150)
    assert found["optimizer"] == pytest.approx(300)
    assert found["frozen copies"] == pytest.approx(300)
    assert found["gathered layer"] == pytest.approx(2 * 50)
    assert found["keys and values"] == pytest.approx(3 * 7 * 32 * 2)
    assert found["vLLM"] == pytest.approx(GIB / 2)
    head = 3 * 2**25 * 4
    assert found["activations"] == pytest.approx(10 * 2 * (18 * 8 + 4 * 16) * 2 + head)
    less = parts(SMALL, replace(setup, checkpointing=True, offloaded=True, gradients_shared=False), 1.0)
    assert less["activations"] * GIB == pytest.approx(10 * (2 * 8 + 18 * 8 + 4 * 16) * 2 + head)
    assert (less["frozen copies"], less["gradients"] * GIB) == (0, pytest.approx(600))


def test_sampling_and_training_take_turns():
    assert peak({"weights": 2.0, "activations": 5.0, "keys and values": 3.0}) == 7.0


def test_tokens_by_hand():
    load = Load(prompts=2, group=4, new_tokens=10, prompt_tokens=30, views=3, reference=True, engine_scores=False)
    assert (load.packed, load.padded) == (2 * (30 + 40), 2 * 4 * 40)
    assert load.stages() == {
        "prefill": 60, "decode": 80, "old log-probs": 140, "methods": 420, "reference": 140, "update": 420,
    }  # fmt: skip
    assert petaflop(10**15, SMALL) == 2 * (100 + 40)


def test_what_is_chosen_changes_the_plan():
    options = ["experiment=pacg_qwen25vl_7b", "router=rules", "data.path=x", "trainer=fsdp", "algorithm.kl_coef=0.01"]
    whole, few = planned(*options), planned(*options, gpus=16)
    assert few.memory["weights"] == pytest.approx(whole.memory["weights"] / 2)
    assert (whole.load.views, whole.setup.copies, whole.load.reference) == (1, 1, True)
    lora = planned(*options, "model/train=lora")
    assert lora.setup.copies == 0 and lora.setup.trained < 0.02 * lora.model.total
    assert lora.memory["optimizer"] < 0.1 * whole.memory["optimizer"]
    alone = planned("model=qwen2_5_vl_7b", "trainer=gpu", "callbacks=[]")
    assert alone.memory["weights"] == pytest.approx(8.29e9 * 4 / GIB, rel=1e-3)
    assert not alone.fits and "more GPUs (trainer=fsdp" in alone.warning()
    inside = planned("model=qwen3_vl_2b", "rollout=vllm", "callbacks=[]")
    assert inside.memory["vLLM"] == 40 and inside.memory["keys and values"] == 0
    assert planned("model=tiny").fits and planned("model=tiny").warning() is None
    assert "| **at most** |" in table(inside)


def test_the_command_prints_numbers_and_warns():
    command = [sys.executable, "-m", "mmcredit.plan", "model=qwen2_5_vl_32b", "callbacks=[]", "hardware.json=true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("warning: "), done.stderr
    assert json.loads(done.stdout)["model"]["layers"] == 64


@pytest.mark.parametrize(
    ("options", "gpus"),
    [
        (["trainer=fsdp", "trainer.devices=4", "trainer.num_nodes=2"], 8),
        (["trainer=fsdp", "trainer.devices=[0,1,2]"], 3),
        (["trainer=fsdp", "hardware.gpus=5"], 5),
        (["trainer=fsdp", "trainer.devices=auto", "hardware.gpus=5"], 5),
        (["trainer=fsdp", "trainer.devices=auto"], "trainer.devices=auto is no number .* hardware.gpus=8"),
        (["trainer=fsdp", "trainer.devices=-1"], "trainer.devices=-1 is no number"),
        (["hardware.gpus=0"], "hardware.gpus=0 must be a whole number at least 1"),
        (["hardware.gib=x"], "hardware.gib=x must be a number"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_gpus_are_the_trainers_unless_others_are_named(options, gpus, capsys):
    cfg = composed("model=tiny", *options, name="plan")
    if isinstance(gpus, int):
        assert plan(cfg).setup.gpus == gpus
        return
    with pytest.raises(UserError, match=gpus):
        plan(cfg)


def test_fit_warns_before_a_run_that_is_too_large_for_the_gpus_that_are_there(monkeypatch, caplog):
    large, small = ["model=qwen2_5_vl_7b", "callbacks=[]"], ["model=tiny"]
    warn(composed(*large, "trainer=gpu"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    gpu = SimpleNamespace(total_memory=80 * GIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: gpu)
    warn(composed(*large))
    warn(composed(*small, "trainer=gpu"))
    warn(composed("model=hub", "model.path=some/unknown", "trainer=gpu"))
    assert not caplog.text
    warn(composed(*large, "trainer=gpu"))
    assert "this run will hardly fit: " in caplog.text and "of 80 GiB, most by" in caplog.text
