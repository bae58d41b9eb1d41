"""Every start has a folder of its own; a refused one leaves none."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hydra
import pytest
from omegaconf import OmegaConf

from mmcredit import folders
from mmcredit.folders import claim, create, own_folder, take_away
from mmcredit.launch import register_resolvers

NOW = "2026-12-01/11-32-00"
CONFIGS = {"fit": NOW, "evaluate": "evaluate/world/", "diagnose": "diagnose/spd/", "prepare": "prepare/warm_start/"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The working folder of a start that has created nothing yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folders, "made", set())
    own_folder.cache_clear()
    yield tmp_path
    own_folder.cache_clear()


def test_of_many_starts_each_gets_a_folder_of_its_own(here):
    with ThreadPoolExecutor(8) as pool:
        names = sorted(pool.map(claim, ["runs/now"] * 24), key=lambda name: int(name.partition("-")[2] or 1))
    assert names == ["runs/now", *(f"runs/now-{i}" for i in range(2, 25))]
    assert sorted(p.name for p in Path("runs").iterdir()) == sorted(Path(name).name for name in names)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_configured_folder_is_taken_once(here, name, monkeypatch):
    """A start knows its folder however often it asks; a second one at the same time gets another."""
    register_resolvers()
    OmegaConf.register_new_resolver("run_name", lambda form="": NOW, replace=True)
    OmegaConf.register_new_resolver("own_folder", own_folder, replace=True)
    try:
        with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
            run = hydra.compose(name, return_hydra_config=True).hydra.run
            first, again = run.dir, run.dir
            own_folder.cache_clear()
            second = run.dir
    finally:
        register_resolvers()
    assert first == again and CONFIGS[name] in first and second == f"{first}-2"


def test_a_requeued_job_of_srun_goes_on_in_its_folder(here, monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    Path("runs/slurm-12-0").mkdir(parents=True)
    assert own_folder("runs/slurm-12-0") == "runs/slurm-12-0"


def started(folder: Path) -> Path:
    """What Hydra writes into a folder."""
    (folder / "config").mkdir()
    for name in ("config.yaml", "hydra.yaml", "overrides.yaml"):
        (folder / "config" / name).touch()
    (folder / "mmcredit.log").touch()
    return folder.absolute()


def test_what_only_hydra_wrote_is_taken_away_with_the_folders_made_for_it(here):
    Path("mine").mkdir()
    take_away(started(Path(claim("mine/runs/day/now"))), "config")
    assert [*here.rglob("*")] == [here / "mine"]


@pytest.mark.parametrize("file", ["checkpoints/step-1.ckpt", "config/notes.txt", "day/notes.txt", "mmcredit.log"])
def test_nothing_else_is_taken_away(here, file):
    folder = started(Path(claim("runs/day/now")))
    kept = here / "runs" / file if file.startswith("day") else folder / file
    kept.parent.mkdir(exist_ok=True)
    kept.write_text("somebody's")
    take_away(folder, "config")
    assert kept.exists() and folder.exists() != file.startswith("day")


def test_a_folder_that_was_there_before_stays(here):
    Path("run").mkdir()
    assert not create(Path("run"))
    take_away(started(Path("run")), "config")
    assert len([*Path("run").rglob("*")]) == 5


def test_a_refused_job_of_a_sweep_leaves_those_before_it(here):
    sweep = Path(claim("runs/now-sweep"))
    (sweep / "multirun.yaml").touch()
    for job in "01":
        (sweep / job).mkdir()
        started(sweep / job)
    (sweep / "0" / "summary.json").touch()
    take_away((sweep / "1").absolute(), "config")
    assert sorted(p.name for p in sweep.iterdir()) == ["0", "multirun.yaml"]


@pytest.mark.parametrize(
    "command",
    ["fit steps=0", "fit hydra.run.dir=a/b steps=0", "fit -m steps=0,1", "maps start=-1", "plan steps=0"],
)
def test_a_refused_start_leaves_nothing(here, command):
    name, *options = command.split()
    done = subprocess.run([sys.executable, "-m", f"mmcredit.{name}", *options], check=False)
    assert done.returncode == 2 and not [*here.iterdir()]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["hydra.run.dir=file/run"], "error: the run folder .*/file/run cannot be written .Not a directory."),
        (["hydra.run.dir=file"], "error: the run folder .*/file cannot be written .File exists."),
        (["hydra.rnu.dir=x"], "error: Could not override 'hydra.rnu.dir'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_folder_that_cannot_be_written_is_one_line(here, options, words):
    (here / "file").touch()
    command = [sys.executable, "-m", "mmcredit.fit", *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert re.match(words, done.stderr), done.stderr
