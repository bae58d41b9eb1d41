"""What is mistyped is said in one line before anything is loaded; what is right is let through."""

from __future__ import annotations

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from mmcredit.launch import _mistake
from mmcredit.overrides import compose_error, jobs
from mmcredit.types import UserError

WRONG = [
    ("fit", ["++stepz=3"], "stepz: no such key; did you mean steps? the configuration has: algorithm"),
    ("fit", ["+foo=1"], "foo: no such key"),
    ("fit", ["+optimizer.lr=1"], "+optimizer.lr=1: optimizer.lr is there already"),
    ("fit", ["trainer.num_nodes=abc"], "trainer.num_nodes=abc must be a number, such as 1"),
    ("fit", ["rollout.engine.batch=abc"], "rollout.engine.batch=abc must be a number, such as 512"),
    ("fit", ["data.train.prior=abc"], "data.train.prior=abc must be a number, such as 0.6"),
    ("fit", ["scoring.packed=maybe"], "scoring.packed=maybe must be true or false"),
    ("fit", ["scoring.token_budget=true"], "scoring.token_budget=true must be a number, such as 16384"),
    ("fit", ["logger=null", "observers=[]"], "logger=null: a group takes a name or a list of names"),
    ("fit", ["~callbacks"], "Could not delete 'callbacks'"),
    ("fit", ["+seed=3"], "+seed=3: seed is there already: leave the + out"),
    ("fit", ["+experiment=world_pacg"], "+experiment=world_pacg: experiment is there already: leave the + out"),
    ("fit", ["algorithm/advantage@algorithm.advantage=mean"], "Could not override 'algorithm/advantage@algorithm"),
    ("evaluate", ["benchmark.size=abc"], "benchmark.size=abc must be a number"),
    ("plan", ["hardware.gbi=3"], "hardware.gbi: no such key; did you mean gib?"),
    ("serve", ["core.max_model_len=abc"], "core.max_model_len=abc must be a number, such as 4096"),
    ("prepare", ["job=padlayer", "job.batch=abc"], "job.batch=abc must be a number, such as 64"),
]
RIGHT = [
    (
        "fit",
        ["+optimizer.eps=1e-3", "++callbacks.pacg.margin=0.1", "++steps=3", "optimizer.lr=1", "data.train.prior=0"],
    ),
    ("fit", ["trainer.devices=auto", "trainer.precision=16", "seed=${steps}", "data.path=x", "model.path=7"]),
    ("fit", ["experiment=[]", "logger=[]", "~data/sampler"]),
    ("fit", ["callbacks=ced", "data/difficulty=pass_rate", "~algorithm.epochs", "algorithm.mini_batch=null"]),
    ("prepare", ["job=reference_bank", "job.out=file", "job.responses=file"]),
    ("evaluate", ["out=here", "benchmark.max_new_tokens=7"]),
    ("diagnose", ["out=here", "checkpoints={a: b}"]),
]


@pytest.mark.parametrize(("name", "overrides", "words"), WRONG, ids=[" ".join(row[1]) for row in WRONG])
def test_wrong(name, overrides, words):
    problem = compose_error(name, overrides)
    assert problem is not None and problem.startswith(words) and "\n" not in problem, problem


@pytest.mark.parametrize(("name", "overrides"), RIGHT, ids=[" ".join(row[1]) for row in RIGHT])
def test_right(name, overrides):
    assert compose_error(name, overrides) is None


def test_a_sweep_is_composed_with_every_value():
    assert jobs(["experiment=glob(world_pac*)", "steps=range(1,3)"]) == [
        [f"experiment={name}", f"steps={steps}"]
        for name, steps in (("world_pace", 1), ("world_pacg", 1), ("world_pace", 2))
    ]
    for nothing in ("experiment=glob(none*)", "steps=range(3,1)"):
        with pytest.raises(UserError, match="nothing to sweep over"):
            jobs(["seed=0", nothing])


def test_own_folders_of_configurations(tmp_path):
    """Whatever their names, and beside others."""
    folders = [tmp_path / "of (mine), x=2", tmp_path / "ours"]
    for folder, steps in zip(folders, (3, 4), strict=True):
        (folder / "experiment").mkdir(parents=True)
        (folder / "experiment" / f"of_{steps}.yaml").write_text(f"# @package _global_\nsteps: {steps}\n")
    assert compose_error("fit", ["experiment=of_3"], str(folders[0])) is None
    both = ["experiment=of_4", f"hydra.searchpath=[file://{folders[1]}]"]
    assert compose_error("fit", both, str(folders[0])) is None
    assert "there is no experiment/of_5" in str(compose_error("fit", ["experiment=of_5"], str(folders[0])))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("fit ++callbacks.ced.margn=1", "error: callbacks.ced: CED.__init__() got an unexpected keyword argument "
                                        "'margn'; there are: scope, margin, "),
        ("fit -m experiment=glob(none*)", "error: experiment=glob(none*): nothing to sweep over"),
        ("fit hydra.mode=MULTIRUN seed=0,-1 steps=0", "error: steps=0 must be"),
        ("serve port=abc", "error: port=abc must be a whole number at least 0 and at most 65535"),
        ("serve model.path=nowhere", "error: this server cannot start here: there is no model directory nowhere"),
        ("evaluate scorer=foo k=1", "error: scorer=foo must be one of fixed for world"),
        ("fit ~steps", "error: Key 'steps' is not in struct"),
        ("fit steps=1 -m seed=-1,0", "error: seed=-1 must be a whole number"),
        ("fit trainer.num_nodes=0", "error: trainer.num_nodes=0 must be a whole number at least 1"),
        ("evaluate benchmark.size=-3", "error: benchmark.size=-3 must be a whole number at least 1"),
        ("evaluate out=file k=1 benchmark.size=1", "error: file cannot be used: File exists"),
        ("plan model.policy.dtype=float7", "error: model.policy.dtype=float7 must be one of float32, "),
    ],
)  # fmt: skip
def test_a_mistake_ends_with_one_line_and_status_2(command, words, tmp_path):
    (tmp_path / "file").touch()
    name, *options = command.split()
    started = [sys.executable, "-m", f"mmcredit.{name}", *options]
    done = subprocess.run(started, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2 and done.stderr.startswith(words) and len(done.stderr.splitlines()) == 1, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (PermissionError(13, "Permission denied", "mine.jsonl"), "mine.jsonl cannot be used: Permission denied (MM"),
        (PermissionError(13, "Permission denied"), "Permission denied (MM"),  # of a port
        (PermissionError("no access"), "no access (MM"),
    ],
)
def test_places_that_may_not_be_used(error, words):
    """Whether for reading or writing, a file or not, the error does not tell."""
    assert str(_mistake(error, OmegaConf.create())).startswith(words)
