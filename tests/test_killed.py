"""``kill -9`` during a step and during a checkpoint, in real processes: the run that goes on has the same losses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from test_fit import losses

from mmcredit.checkpoints import clean, resume_from

OPTIONS = ["data.batch_size=4", "algorithm.mini_batch=2", "algorithm.micro_batch=2", "rollout.group=4", "logger=csv"]
OPTIONS += ["data.train.size=64", "data.val.val.size=4", "data.val.counter_prior.size=0", "rollout.max_new_tokens=12"]
OPTIONS += ["steps=5", "observers.checkpoint.every=1", "algorithm.kl_coef=0.01", "callbacks=[ced]"]
FOLDERS = ["trainer=fsdp", "trainer.strategy.checkpoint_folder=true"]
STUCK = ["+callbacks.stuck._target_=fakes.Stuck", "+callbacks.stuck.step=4", "+callbacks.stuck.marker={marker}"]
HALF = ["observers.checkpoint._target_=fakes.HalfWritten", "+observers.checkpoint.step=4"]
HALF += ["+observers.checkpoint.marker={marker}"]
CASES = {
    "step": STUCK,
    "checkpoint": HALF,
    "background checkpoint": [*HALF, "observers.checkpoint.background=true"],
    "checkpoint of two ranks": [*HALF, *FOLDERS],
}


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """``python -m mmcredit.fit`` in a process group of its own."""
    command = [sys.executable, "-m", "mmcredit.fit", f"hydra.run.dir={folder}", *OPTIONS, *options]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with (folder.parent / "output.txt").open("ab") as output:
        return subprocess.Popen(command, env=env, stdout=output, stderr=output, start_new_session=True)


def killed(folder: Path, marker: Path, *options: str) -> None:
    """Killed, with all that it started, when the marker is there."""
    process = start(folder, *(option.format(marker=marker) for option in options))
    try:
        end = time.monotonic() + 200
        while not marker.exists():
            assert process.poll() is None and time.monotonic() < end, (folder.parent / "output.txt").read_text()
            time.sleep(0.05)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def finished(folder: Path, *options: str) -> dict[int, str]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    assert start(folder, *options).wait(300) == 0, (folder.parent / "output.txt").read_text()
    return losses(folder)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    assert len(set(finished(folder).values())) == 5
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_goes_on_as_if_nothing_had_happened(case, unbroken, tmp_path):
    run, marker = tmp_path / "run", tmp_path / "marker"
    killed(run, marker, *CASES[case])
    checkpoints = run / "checkpoints"
    assert [p.name for p in checkpoints.glob("*.partial")] == ([] if case == "step" else ["step-4.ckpt.partial"])
    assert resume_from(run).name == "step-3.ckpt"
    ranks = FOLDERS if "ranks" in case else []
    whole = losses(unbroken)
    elsewhere = finished(tmp_path / "elsewhere" / "run", f"ckpt_path={run}", *ranks)
    here = finished(run, f"ckpt_path={run}", *ranks)
    assert sorted(p.name for p in checkpoints.iterdir()) == ["last.ckpt", "step-5.ckpt"]
    assert set(here) == set(elsewhere) == {4, 5}
    if ranks:
        assert {s: float(v) for s, v in here.items()} == pytest.approx({s: float(whole[s]) for s in (4, 5)}, abs=1e-5)
        assert here == elsewhere
        return
    assert here == elsewhere == {step: whole[step] for step in (4, 5)}
    ours, theirs = (torch.load(resume_from(f), weights_only=True)["state_dict"] for f in (run, unbroken))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.slow
def test_what_was_half_written_cannot_be_loaded_and_is_never_chosen(unbroken, tmp_path):
    """The guard itself: half of a real checkpoint under a complete name would fail, under a partial one it is passed
    over."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    content = resume_from(unbroken).read_bytes()
    (folder / "step-5.ckpt.partial").write_bytes(content[: len(content) // 2])
    (folder / "step-4.ckpt").write_bytes(content)
    assert resume_from(tmp_path).name == "step-4.ckpt"
    clean(folder)
    assert [p.name for p in folder.iterdir()] == ["step-4.ckpt"]
