"""The entry point on the embedded world: stages, stops and resumes, mistakes that end with one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import hydra
import pytest
from omegaconf import DictConfig

from mmcredit.evaluate import evaluate
from mmcredit.evaluation.files import Folder
from mmcredit.launch import user_error
from mmcredit.types import UserError

SMALL = ["k=3", "batch=5", "bootstrap.replicates=200", "rollout.max_new_tokens=24"]
RESULTS = ("predictions.jsonl", "questions.jsonl", "graded.jsonl", "scores.json", "scores.md")


def config(out: Path, *overrides: str) -> DictConfig:
    world = [] if any(o.startswith("benchmark=") for o in overrides) else ["benchmark.size=6"]
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        return hydra.compose("evaluate", overrides=[*SMALL, *world, f"out={out}", f"run_dir={out}", *overrides])


def refused(cfg: DictConfig) -> str:
    """The one line with which an evaluation ends."""
    with pytest.raises(Exception) as caught:
        evaluate(cfg)
    mistake = user_error(caught.value)
    assert isinstance(mistake, UserError) and "\n" not in str(mistake), caught.value
    return str(mistake)


def results(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in RESULTS}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    evaluate(config(folder))
    return folder


def test_every_response_has_draws_of_its_own(unbroken):
    rows = Folder(unbroken)
    assert len(rows.questions) == 12 and sorted({k for _, k in rows.predictions}) == [0, 1, 2]
    assert len(rows.predictions) == 36 and len({p.prediction for p in rows.predictions.values()}) > 12
    report = json.loads((unbroken / "scores.json").read_text())
    metrics = report["metrics"]["fixed"]
    parts = [metrics[f"accuracy/split={name}"]["value"] for name in ("val", "counter_prior")]
    assert metrics["accuracy"]["value"] == pytest.approx(sum(parts) / 2)
    assert report["settings"]["model"]["path"].endswith("tiny_qwen3vl")


@pytest.mark.parametrize("cut", [1, 40, 700, 2500])
def test_resuming_a_torn_evaluation_changes_no_byte(unbroken, tmp_path, cut):
    for name in ("settings.json", "questions.jsonl", "predictions.jsonl"):
        data = (unbroken / name).read_bytes()
        (tmp_path / name).write_bytes(data[:-cut] if name == "predictions.jsonl" else data)
    if cut > 1000:  # the last batch's questions were not there yet
        (tmp_path / "questions.jsonl").write_bytes((unbroken / "questions.jsonl").read_bytes()[:-900])
    evaluate(config(tmp_path))
    assert results(tmp_path) == results(unbroken)


def test_batches_do_not_change_responses(unbroken, tmp_path):
    evaluate(config(tmp_path, "batch=4", "stage=generate"))
    assert Folder(tmp_path).predictions == Folder(unbroken).predictions


def test_stages_are_separate_and_scoring_needs_no_model(unbroken, tmp_path):
    assert evaluate(config(tmp_path, "stage=generate", "k=1")) == {}
    assert not (tmp_path / "scores.json").exists()
    before = (tmp_path / "predictions.jsonl").read_bytes()
    report = evaluate(config(tmp_path, "stage=score", "k=1", "model.path=/nowhere"))
    assert report["k"] == 1 and (tmp_path / "predictions.jsonl").read_bytes() == before
    evaluate(config(tmp_path))  # more responses a question in the same folder
    assert Folder(tmp_path).predictions == Folder(unbroken).predictions


def test_finished_evaluations_load_no_model_again(unbroken, monkeypatch):
    before = results(unbroken)
    monkeypatch.setattr("mmcredit.evaluate.responder", lambda _: pytest.fail("the model is loaded"))
    evaluate(config(unbroken))
    assert results(unbroken) == before


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("stage=other", "stage=other must be one of generate, score, all, average"),
        ("scorer=other", "scorer=other must be one of fixed for world"),
        ("seed=1", "begun with other settings (seed)"),
        ("template=short_evidence", "begun with other settings (template)"),
        ("rollout.temperature=0.5", "begun with other settings (rollout)"),
        ("benchmark.size=7", "begun with other settings (questions, source)"),
        ("bootstrap.replicates=0", "bootstrap.replicates=0"),
        ("rollout.temperature=0", "gives 3 equal responses a question: add k=1"),
        ("k=0", "k=0 must be a whole number at least 1"),
        ("batch=0", "batch=0 must be a whole number at least 1"),
    ],
)
def test_mistakes(unbroken, override, message):
    assert message in refused(config(unbroken, override))


def test_missing_files_and_models_are_named(tmp_path):
    assert "MMStar.tsv does not exist" in refused(config(tmp_path, "benchmark=mmstar"))
    assert "no model is named" in refused(config(tmp_path, "model=hub"))


@pytest.mark.slow
def test_killed_half_way_it_resumes_to_the_same_numbers(tmp_path):
    """kill -9 twice in the middle of 48 questions, then to the end."""
    options = ["benchmark.size=24", "k=4", "batch=4", "bootstrap.replicates=500"]
    command = [sys.executable, "-m", "mmcredit.evaluate", *options]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*command, f"out={whole}", f"hydra.run.dir={tmp_path}/a"], env=env, check=True)
    counts = []
    for enough in (20, 90):
        process = subprocess.Popen([*command, f"out={broken}", f"hydra.run.dir={tmp_path}/b"], env=env)
        path = broken / "predictions.jsonl"
        while not (path.exists() and path.read_bytes().count(b"\n") >= enough):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        counts.append(path.read_bytes().count(b"\n"))
    assert 20 <= counts[0] < counts[1] < 48 * 4
    subprocess.run([*command, f"out={broken}", f"hydra.run.dir={tmp_path}/c"], env=env, check=True)
    assert results(broken) == results(whole)
