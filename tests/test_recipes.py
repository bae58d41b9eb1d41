"""Every recipe of a paper composes to what its header says, and trains the tiny model on the embedded world."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hydra.utils import get_object
from omegaconf import OmegaConf
from tests.test_fit import config

import mmcredit.configs
from mmcredit.checks import check
from mmcredit.fit import fit
from mmcredit.types import UserError

CONFIGS = Path(mmcredit.configs.__file__).parent
SMALL = ("world_", "digits_", "easy_vqa_")  # experiments on the tiny model
RECIPES = sorted(p.stem for p in (CONFIGS / "experiment").glob("*.yaml") if not p.stem.startswith(SMALL))
MODELS = sorted(p.stem for p in (CONFIGS / "model").glob("*.yaml") if not p.stem.startswith(("tiny", "hub")))
QUICK = ["ced_qwen3vl", "pacg_vppo_qwen25vl_7b", "pace_qwen3vl_8b", "palmr_qwen25vl_7b"]  # the others are slow
LAPTOP = ["model=tiny", "data=world", "trainer=cpu", "rollout=hf", "steps=1"]  # as in the headers
FEW = ["data.batch_size=4", "algorithm.mini_batch=4", "rollout.group=4", "logger=csv", "rollout.max_new_tokens=24"]
FEW += ["data.val.val.size=4", "data.val.counter_prior.size=4"]


def test_the_recipes_of_the_papers_are_there():
    expected = {"pacg": 4, "ced": 4, "pace": 4, "palmr": 1, "grpo": 1, "dapo": 1, "vppo": 1, "papo": 1, "rlsd": 1}
    found = [recipe.partition("_")[0] for recipe in RECIPES]
    assert {method: found.count(method) for method in expected} == expected
    assert "rlcsd_qwen25vl_7b" in RECIPES


@pytest.mark.parametrize("recipe", [pytest.param(r, marks=[] if r in QUICK else [pytest.mark.slow]) for r in RECIPES])
def test_a_recipe_trains_the_tiny_model(recipe, tmp_path):
    """As on a laptop, with a smaller batch."""
    assert fit(config(tmp_path, f"experiment={recipe}", *LAPTOP, *FEW))["steps"] == 1


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_names_a_backbone_and_nothing_its_parts_do_not_take(recipe, tmp_path):
    cfg = config(tmp_path, f"experiment={recipe}")
    OmegaConf.to_container(cfg, resolve=True)
    assert cfg.model.path.count("/") == 1 and cfg.trainer.accelerator == "gpu" and "path" in cfg.data.train
    for name, part in cfg.callbacks.items():
        if "_target_" in part:
            options = {key: value for key, value in part.items() if key != "_target_"}
            known = get_object(part["_target_"]).__init__.__annotations__
            assert set(options) <= set(known), name


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_says_how_to_start_and_what_to_expect(recipe):
    text = (CONFIGS / "experiment" / f"{recipe}.yaml").read_text()
    head = text.partition("defaults:")[0]
    assert text.startswith("# @package _global_\n# python -m mmcredit.fit experiment=" + recipe)
    for word in ("Hardware", "Expect: ", "On a laptop: "):
        assert word in head
    command = re.sub(r" \\\n#  ", "", head.partition("On a laptop: ")[2]).split()
    assert command == f"python -m mmcredit.fit experiment={recipe}".split() + LAPTOP
    assert "(" in head.partition("Expect: ")[2], "where the figure is from"


@pytest.mark.parametrize("model", MODELS)
def test_a_backbone_is_its_hub_name(model, tmp_path):
    cfg = config(tmp_path, f"model={model}")
    assert cfg.model.policy.path == cfg.model.processor.path == cfg.model.path and cfg.model.path.count("/") == 1


def test_a_recipe_without_its_service_says_how_to_name_one(tmp_path):
    for recipe, group in (("pacg_qwen25vl_7b", "router"), ("palmr_qwen25vl_7b", "judge")):
        with pytest.raises(UserError) as caught:
            check(config(tmp_path, f"experiment={recipe}"))
        assert f"{group}=oracle knows only the embedded world (use {group}=openai {group}.chat.model=" in str(
            caught.value
        )


def test_a_service_without_a_model_is_refused_before_the_policy_is_loaded(tmp_path, monkeypatch):
    monkeypatch.setattr("mmcredit.models.load.load_policy", lambda **options: pytest.fail("the policy was loaded"))
    with pytest.raises(Exception, match=r"router=openai needs a model"):
        fit(config(tmp_path, "experiment=pacg_qwen25vl_7b", *LAPTOP, "router=openai"))


def test_a_model_without_a_name_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"no model is named \(model.path="):
        check(config(tmp_path, "model=hub"))
