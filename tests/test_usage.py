"""The help of every command: the same parts, all that can be chosen, at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mmcredit.configs
from mmcredit.usage import WIDTH, usage

CONFIGS = Path(mmcredit.configs.__file__).parent
COMMANDS = {  # what each must show
    "fit": [
        "callbacks=[ced]: ced, cepo",
        "experiment=null: ced_qwen",
        "  steps: 200 # rollout steps",
        "observers=[pro",
    ],
    "evaluate": ["benchmark=world: ", "64 questions of each of its splits", "  k: 8 # responses a question"],
    "diagnose": ["diagnostic=spd: avoidance", "  bank: null # folder"],
    "maps": ["callbacks=[ced]: ", "  methods: null # e.g."],
    "plan": ["model=tiny: hub", "  gpus: null # over all nodes", "  gib: 80 # memory of each"],
    "prepare": ["job=warm_start: coco_evidence"],
    "serve": ["model=tiny: hub", "  port: 8177"],
}


def test_every_command_is_here():
    assert {path.stem for path in CONFIGS.glob("*.yaml")} == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_all_have_the_same_parts(name):
    text = usage(name, [])
    parts = ("python -m mmcredit.", "\n\nGroups", "\n\nValues of its own", "\n\nAll values")
    about, groups, own, values = map(text.index, parts)
    assert about < groups < own < values and f"mmcredit.{name} " in text.replace("report maps", "mmcredit.maps ")
    assert all(words in text for words in COMMANDS[name]), text
    assert "hydra:" not in text[own:].replace("${hydra:", "") and max(map(len, text[:own].splitlines())) <= WIDTH


def test_every_group_and_option_of_a_command_is_listed():
    """Those that its defaults name, and no others."""
    listed = usage("diagnose", []).partition("\n\nGroups")[2].partition("\n\nValues")[0].splitlines()
    names = [line.strip().partition("=")[0] for line in listed[1:] if not line.startswith("      ")]
    assert names == sorted(["callbacks", "diagnostic", "labels", "model", "model/train", "reward", "reward/verifier",
                            "rollout", "router"], key=lambda name: f"{name}=")  # fmt: skip
    assert all(path.stem in usage("fit", []) for path in (CONFIGS / "experiment").glob("*.yaml"))


def test_what_was_typed_is_shown():
    text = usage("prepare", ["job=padlayer", "model=tiny_digits"])
    assert "captioner=oracle: openai" in text and "model=tiny_digits: hub" in text and "best_of: null" in text


def test_every_job_of_prepare_has_a_line():
    lines = [line.split(maxsplit=1) for line in usage("prepare", []).partition("\n\nGroups")[0].splitlines()]
    said = {words[0]: words[1] for words in lines if len(words) == 2}
    for path in (CONFIGS / "job").glob("*.yaml"):
        assert len(said[path.stem]) > 10


@pytest.mark.parametrize("command", ["fit", "prepare padlayer", "report maps", "maps", "report", "fit -m seed=0,1"])
def test_it_loads_nothing_heavy(command, tmp_path):
    name, *words = command.split()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", f"mmcredit.{name}", *words, "--help"],
        capture_output=True, text=True, cwd=tmp_path, check=True,
    )  # fmt: skip
    loaded = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "omegaconf" in loaded or command == "report"
    assert not loaded & {"torch", "transformers", "lightning"} and not [*tmp_path.iterdir()]
    assert "python -m mmcredit." in done.stdout


def test_help_with_a_mistake_says_the_mistake(tmp_path):
    command = [sys.executable, "-m", "mmcredit.fit", "stepz=3", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2 and "did you mean steps?" in done.stderr
