"""The corpora that packages hold: from their configurations to batches, warm starts and training steps."""

from __future__ import annotations

import json
from pathlib import Path

import hydra
import pytest
from hydra.utils import instantiate
from tests.test_fit import config

import mmcredit.configs
import mmcredit.models
from mmcredit.data.datamodule import DataModule
from mmcredit.fit import fit
from mmcredit.models.processor import load_processor
from mmcredit.models.supervision import Phase

CORPORA = ["digits", "easy_vqa"]
MODELS, CONFIGS = Path(mmcredit.models.__file__).parent, Path(mmcredit.configs.__file__).parent
FEW = ["data.batch_size=4", "algorithm.mini_batch=4", "algorithm.micro_batch=4", "rollout.group=4"]
FEW += ["logger=csv", "data.val.val.size=8"]


@pytest.fixture(params=CORPORA)
def corpus(request: pytest.FixtureRequest) -> str:
    return request.param


def phases(corpus: str) -> list[Phase]:
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        job = hydra.compose("prepare", overrides=[f"job=warm_start_{corpus}", "run_dir=."]).job
    return instantiate(job.phases, _convert_="all")


def test_a_batch_has_the_pictures_tokens_and_boxes_of_its_samples(corpus, tmp_path):
    cfg = config(tmp_path, f"experiment={corpus}_ced", "data.val.val.size=8")
    val = {name: instantiate(source) for name, source in cfg.data.val.items()}
    data = DataModule(instantiate(cfg.data.train), val, instantiate(cfg.template), 8, 4, seed=0)
    processor = load_processor(cfg.model.path)
    data.connect(processor)
    prompts = next(iter(data.train_dataloader()))
    image = processor.tokenizer.convert_tokens_to_ids(processor.image_token)
    for sample, ids, grid in zip(prompts.samples, prompts.ids, prompts.grids, strict=True):
        assert grid.tolist() == [[1, 8, 8]] and (ids == image).sum() == 16
        assert sample.question in processor.tokenizer.decode(ids)
        assert len(ids) < 100
        assert all(b.x >= 0 and b.x + b.w <= 128 and b.y >= 0 and b.y + b.h <= 128 for b in sample.boxes)
    assert [len(batch) for batch in data.val_dataloader()[0]] == [4, 4]


def test_demonstrations_are_well_formed_and_short_and_survive_the_tokenizer(corpus, tmp_path):
    cfg = config(tmp_path, f"experiment={corpus}_ced")
    tokenizer, template = load_processor(cfg.model.path).tokenizer, instantiate(cfg.template)
    for phase in phases(corpus):
        ((_, shown),) = phase.demonstrations()
        for i in range(100):
            text = shown.response(i)
            ids = tokenizer(text).input_ids
            assert template.well_formed(text) and tokenizer.decode(ids) == text
            assert len(ids) < cfg.rollout.max_new_tokens


def test_planted_faults_have_their_shares(corpus):
    """Of 1,000 demonstrations, a shortcut that happens to be right is no fault."""
    *true, last = phases(corpus)
    faults = last.faults
    shares = []
    for phase in (true[-1], last):
        ((_, shown),) = phase.demonstrations()
        wrong = lucky = 0
        for i in range(1000):
            q = shown.world.question(i)
            answer = shown.response(i).partition("Final answer: ")[2]
            wrong += answer != q.answer
            lucky += q.prior_answer == q.answer
        shares.append((wrong / 1000, lucky / 1000))
    (none, _), (planted, lucky_share) = shares
    assert none == 0
    assert planted == pytest.approx(faults["shortcut"] * (1 - lucky_share) + faults["slip"], abs=0.05)


@pytest.mark.parametrize("methods", ["[ced]", "[]"])
def test_an_experiment_trains_on_its_warm_start(corpus, methods, tmp_path):
    summary = fit(config(tmp_path, f"experiment={corpus}_ced", f"callbacks={methods}", *FEW, "steps=1"))
    assert summary["steps"] == 1 and 0 <= summary["val_accuracy_end"] <= 1
    assert summary["metrics_start"]["val/format"] >= 0.5  # of eight


def test_the_experiment_says_what_to_expect(corpus):
    head = (CONFIGS / "experiment" / f"{corpus}_ced.yaml").read_text().partition("defaults:")[0]
    assert head.startswith(f"# @package _global_\n# python -m mmcredit.fit experiment={corpus}_ced\n")
    assert "Hardware: " in head and "Expect: " in head


def test_the_shipped_model_is_small_and_says_what_it_can(corpus):
    folder = MODELS / f"tiny_qwen3vl_{corpus}"
    assert sum(p.stat().st_size for p in folder.iterdir()) <= 6 * 2**20
    metrics = json.loads((folder / "warm_start.json").read_text())["metrics"]["short_evidence"]
    assert 0.4 <= metrics["val/accuracy"] <= 0.8, "something is left to learn"
