"""Loading a policy, without weights, too, and setting it up."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

import mmcredit
from mmcredit.models.load import SMALL_MODEL, frozen_copy, load_policy, own_device, set_up
from mmcredit.types import UserError

TINY = str(Path(mmcredit.__file__).parent / "models" / "tiny_qwen3vl")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def made(tokens: int) -> SimpleNamespace:
    return SimpleNamespace(tokenizer=range(tokens))


def test_ids_beyond_the_tokenizer_are_never_sampled(policy):
    mine = frozen_copy(policy)
    assert set_up(mine, made(300)) is mine
    assert {300, policy.vocabulary - 1} <= set(mine.forbidden_ids.tolist()) and 299 not in mine.forbidden_ids
    assert set_up(mine, made(policy.vocabulary + 5)).known_ids == policy.vocabulary


def test_a_small_model_gets_one_thread_unless_the_user_chose(policy, threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    set_up(frozen_copy(policy), made(300))
    assert torch.get_num_threads() == 2
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr("mmcredit.models.load.SMALL_MODEL", 10)
    set_up(frozen_copy(policy), made(300))
    assert torch.get_num_threads() == 2
    monkeypatch.setattr("mmcredit.models.load.SMALL_MODEL", SMALL_MODEL)
    set_up(frozen_copy(policy), made(300))
    assert torch.get_num_threads() == 1


def test_a_model_is_moved_only_where_it_shall_be(policy, monkeypatch):
    assert set_up(frozen_copy(policy), made(300), torch.device("meta")).hf.device.type == "meta"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert own_device() == torch.device("cuda:3")
    monkeypatch.delenv("LOCAL_RANK")
    assert own_device() == torch.device("cuda:0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert own_device() == torch.device("cpu")


def test_a_model_without_weights_differs_in_nothing_else():
    empty, loaded = load_policy(TINY, empty=True), load_policy(TINY)
    assert empty.hf.generation_config.to_dict() == loaded.hf.generation_config.to_dict()
    assert empty.hf.config.to_dict() == loaded.hf.config.to_dict() and empty.training == loaded.training
    assert empty.hf.training == loaded.hf.training and empty.dtype == loaded.dtype
    assert [(n, p.shape, p.dtype) for n, p in empty.named_parameters()] == [
        (n, p.shape, p.dtype) for n, p in loaded.named_parameters()
    ]


@pytest.mark.parametrize("empty", [False, True])
def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path, empty):
    """Else they would begin at random, with no word of it."""
    folder = Path(shutil.copytree(TINY, tmp_path / "model"))
    weights = load_file(folder / "model.safetensors")
    lost = next(name for name in weights if "layers.0.self_attn.k_proj" in name)
    save_file(weights | {"more": torch.zeros(1)}, folder / "model.safetensors", {"format": "pt"})
    load_policy(str(folder), empty=empty)
    save_file({name: w for name, w in weights.items() if name != lost}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=f"lacks 1 weights of its model, e.g. {lost}"):
        load_policy(str(folder), empty=empty)
