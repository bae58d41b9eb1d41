"""What a run writes down of where it comes from."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import hydra
import torch

import mmcredit
from mmcredit.data.datamodule import DataModule
from mmcredit.data.templates import Template
from mmcredit.data.world.source import World
from mmcredit.provenance import (
    environment,
    git_state,
    measured_on,
    model_fingerprint,
    provenance,
    write_provenance,
)

TINY = Path(mmcredit.__file__).parent / "models" / "tiny_qwen3vl"


def test_it_names_seed_data_model_versions_and_fits_in_json(tmp_path):
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        cfg = hydra.compose("fit", overrides=[f"run_dir={tmp_path}", "seed=7"])
    template = Template("Think, then \\boxed{answer}.", r".*")
    data = DataModule(World("train", 8), {"val": World("val", 4)}, template, 2, 2, seed=7)
    found = json.loads(json.dumps(provenance(cfg, data)))
    assert found["seed"] == 7 and found["data"]["train"]["size"] == 8
    assert found["data"]["val"]["fingerprint"] != found["data"]["train"]["fingerprint"]
    assert found["versions"]["torch"] == torch.__version__ and "python" in found["versions"]
    assert found["model"]["fingerprint"] == model_fingerprint(str(TINY)) is not None


def test_the_template_and_the_data_change_it(tmp_path):
    template = Template("Think, then \\boxed{answer}.", r".*")
    data = DataModule(World("train", 8), {}, template, 2, 2, seed=0)
    found = []
    for choice in ("think", "short_evidence"):
        with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
            found.append(provenance(hydra.compose("fit", [f"run_dir={tmp_path}", f"template={choice}"]), data))
    assert found[0]["template"] != found[1]["template"] and found[0]["data"] == found[1]["data"]


def test_a_measurement_is_known_by_its_questions_template_and_sampling(tmp_path):
    def found(size: int, *options: str) -> str:
        data = DataModule(World("train", 8), {"val": World("val", size)}, Template("a", r".*"), 2, 2, seed=0)
        with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
            return measured_on(hydra.compose("fit", [f"run_dir={tmp_path}", *options]), data)["val"]

    changes = [[], ["template=think"], ["rollout.temperature=0.5"], ["rollout.max_new_tokens=9"], ["rollout.top_p=0.9"]]
    assert len({found(4, *options) for options in changes} | {found(5)}) == 6
    assert found(4) == found(4, "seed=1", "steps=3", "rollout.group=4")


def test_a_model_is_known_by_its_weights(tmp_path):
    folder = shutil.copytree(TINY, tmp_path / "model")
    assert model_fingerprint(str(folder)) == model_fingerprint(str(TINY))
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    assert model_fingerprint(str(folder)) != model_fingerprint(str(TINY))
    assert model_fingerprint("Qwen/Qwen3-VL-8B-Instruct") is None and model_fingerprint(None) is None


def test_git_state_holds_what_is_not_committed(tmp_path):
    assert git_state(tmp_path) is None
    person = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    (tmp_path / "a.txt").write_text("one\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *person, *command], check=True)
    state = git_state(tmp_path)
    assert len(state["commit"]) == 40 and state["changed"] == [] and state["diff"] == ""
    (tmp_path / "a.txt").write_text("two\n")
    (tmp_path / "b.txt").write_text("new\n")
    state = git_state(tmp_path)
    assert state["changed"] == ["a.txt", "b.txt"] and "+two" in state["diff"]


def test_the_diff_restores_the_code_on_its_commit_new_methods_included(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    person = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    (here / "package").mkdir(parents=True)
    (here / "package" / "a.py").write_text("one\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(here), *person, *command], check=True)
    changes = {"package/a.py": "two\n", "package/new.py": "three\n", "own method.yaml": "k: 4\n"}
    for name, text in {**changes, "weights.bin": "large", ".gitignore": "*.log\n", "x.log": ""}.items():
        (here / name).write_text(text)
    state = git_state(here / "package")
    subprocess.run(["git", "clone", "-q", str(here), str(there)], check=True)
    assert (there / "package" / "a.py").read_text() == "one\n"
    subprocess.run(["git", "-C", str(there), "apply"], input=state["diff"].encode(), check=True)
    assert {name: (there / name).read_text() for name in changes} == changes
    assert not (there / "weights.bin").exists() and "weights.bin" in state["changed"]


def test_an_earlier_start_in_the_same_folder_is_kept(tmp_path):
    """A run that was killed and went on there was begun as the first of them says."""
    for start in range(3):
        write_provenance({"start": start}, tmp_path)
    kept = {path.stem: json.loads(path.read_text())["start"] for path in tmp_path.iterdir()}
    assert kept == {"provenance": 2, "provenance-1": 0, "provenance-2": 1}


def test_secrets_in_the_environment_are_not_written(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    text = json.dumps(environment())
    assert "secret" not in text and '"OMP_NUM_THREADS": "1"' in text
