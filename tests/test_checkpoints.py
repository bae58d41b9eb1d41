"""Whenever a process is killed, what can be loaded is complete."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mmcredit import checkpoints
from mmcredit.checkpoints import (
    FORMAT,
    best,
    best_link,
    check_resume,
    clean,
    complete,
    point,
    publish,
    replace_folder,
    resume_from,
    step_of,
    sweep,
)
from mmcredit.types import UserError

SIZE = 3  # files of a folder
WHOLE = "x" * 100


class Killed(BaseException):
    """Nothing after it happens, as after kill -9."""


def write(partial: Path, step: int, folder: bool) -> None:
    parts = [partial / str(i) for i in range(SIZE)] if folder else [partial]
    partial.mkdir() if folder else None
    for part in parts:
        part.write_text("")  # half written
        checkpoints._sync(part)
        part.write_text(f"{step} {WHOLE}")


def read(path: Path) -> int:
    """The step of a checkpoint; fails where it is not complete."""
    parts = sorted(path.iterdir()) if path.is_dir() else [path]
    assert len(parts) == (SIZE if path.is_dir() else 1)
    texts = {part.read_text() for part in parts}
    assert len(texts) == 1
    step, whole = texts.pop().split()
    assert whole == WHOLE
    return int(step)


def save(folder: Path, step: int, whole: bool) -> None:
    partial = folder / f"step-{step}.ckpt.partial"
    write(partial, step, whole)
    name = publish(partial, step)
    point(folder / "last.ckpt", name)
    if step % 2:
        point(best_link(folder, "val/accuracy", step / 10, step), name)
    for score, old in best(folder, "val/accuracy"):
        if old < step - 2:
            best_link(folder, "val/accuracy", score, old).unlink()
    sweep(folder, 1, None)


def life(folder: Path, whole: bool, limit: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Six saves, killed before the ``limit``-th change of the file system; whether all were done."""
    count = 0

    def counted(call):
        def counting(*args, **options):
            nonlocal count
            count += 1
            if count > limit:
                raise Killed
            return call(*args, **options)

        return counting

    with monkeypatch.context() as patch:
        for name in ("rename", "replace", "symlink_to", "unlink", "mkdir", "write_text"):
            patch.setattr(Path, name, counted(getattr(Path, name)))
        for name in ("rmdir", "unlink"):
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(os, "fsync", counted(os.fsync))
        try:
            for step in range(1, 7):
                save(folder, step, whole)
        except Killed:
            return False
    return True


@pytest.mark.parametrize("whole", [False, True], ids=["file", "folder"])
def test_killed_before_any_change_of_the_file_system(whole, tmp_path, monkeypatch):
    """Every point at which a process can die: what is found then is complete, and the next start goes on from it."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # counted, but no disk is waited for
    done, limit = False, 0
    while not done:
        folder = tmp_path / str(limit) / "checkpoints"
        folder.mkdir(parents=True)
        done = life(folder, whole, limit, monkeypatch)
        found = complete(folder)
        for path in found:
            assert read(path) == step_of(path)
        if found:
            step = read(resume_from(folder.parent))
            assert step == max(map(step_of, found)) or step == max(map(step_of, found)) - 1
        clean(folder)
        assert not [p for p in folder.iterdir() if not p.exists() or p.suffix in (".partial", ".link")]
        save(folder, 9, whole)
        assert read(resume_from(folder)) == 9
        limit += 1
    assert limit > 60


LOOP = """
import sys, time
from pathlib import Path
sys.path[:0] = {path!r}
from mmcredit.checkpoints import clean, point, publish, sweep
folder = Path(sys.argv[1])
clean(folder)
step = int(sys.argv[2])
while True:
    step += 1
    partial = folder / f"step-{{step}}.ckpt.partial"
    with partial.open("w") as file:
        for _ in range(20):
            file.write("y" * 5000)
            file.flush()
            time.sleep(0.0005)
        file.write(str(step))
    point(folder / "last.ckpt", publish(partial, step))
    sweep(folder, 2, None)
"""


def test_kill_9_while_writing(tmp_path):
    """A real process with a slow writer, killed five times at odd moments."""
    halves, step = 0, 0
    for n in range(5):
        command = [sys.executable, "-c", LOOP.format(path=sys.path), str(tmp_path), str(step)]
        process = subprocess.Popen(command)
        before = step
        while not (tmp_path / "last.ckpt").exists() or int(resume_from(tmp_path).read_text().strip("y")) < before + 2:
            assert process.poll() is None
            time.sleep(0.001)
        time.sleep(0.004 * n)
        process.kill()
        process.wait()
        halves += any(path.name.endswith(".partial") for path in tmp_path.iterdir())
        for path in complete(tmp_path):
            text = path.read_text()
            assert len(text.strip(text.strip("y"))) == 100_000 and int(text.strip("y")) == step_of(path)
        step = int(resume_from(tmp_path).read_text().strip("y"))
    assert halves, "no write was interrupted: the test proves nothing"
    clean(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".ckpt"}


def test_the_same_step_again_gets_another_name(tmp_path):
    for _ in range(3):
        save(tmp_path, 4, True)
        assert len(complete(tmp_path)) == 1 and read(resume_from(tmp_path)) == 4
    assert resume_from(tmp_path).name == "step-4.ckpt"
    save(tmp_path, 4, True)
    assert resume_from(tmp_path).name == "step-4.1.ckpt"


def test_newest_linked_and_every_so_many_are_kept(tmp_path):
    for step in range(1, 13):
        partial = tmp_path / f"step-{step}.ckpt.partial"
        write(partial, step, False)
        name = publish(partial, step)
        os.utime(name, ns=(step, step))
        point(tmp_path / "last.ckpt", name)
        if step == 2:
            point(best_link(tmp_path, "val/accuracy", 0.625, 2), name)
        sweep(tmp_path, 2, 5)
    assert [step_of(path) for path in complete(tmp_path)] == [2, 5, 10, 11, 12]
    assert best(tmp_path, "val/accuracy") == [(0.625, 2)] and best(tmp_path, "val/other") == []


def test_a_folder_is_replaced_by_a_complete_one(tmp_path):
    for step in (1, 2):
        write(tmp_path / "policy.partial", step, True)
        replace_folder(tmp_path / "policy.partial", tmp_path / "policy")
        assert read(tmp_path / "policy") == step and [p.name for p in tmp_path.iterdir()] == ["policy"]


def test_what_a_user_may_name(tmp_path):
    folder = tmp_path / "run" / "checkpoints"
    folder.mkdir(parents=True)
    with pytest.raises(UserError, match="holds no checkpoint; use a run folder"):
        resume_from(tmp_path / "run")
    save(folder, 1, False)
    wanted = (folder / "step-1.ckpt").resolve()
    for path in (tmp_path / "run", folder, folder / "last.ckpt", folder / "step-1.ckpt"):
        assert resume_from(path) == wanted
    (folder / "last.ckpt").unlink()
    assert resume_from(str(tmp_path / "run")) == wanted
    write(folder / "step-2.ckpt.partial", 2, False)
    assert resume_from(tmp_path / "run") == wanted
    with pytest.raises(UserError, match="half written"):
        resume_from(folder / "step-2.ckpt.partial")
    with pytest.raises(UserError, match="does not exist"):
        resume_from(tmp_path / "nowhere")


@pytest.mark.parametrize(("kept", "shown"), [({}, "format none"), ({"format": FORMAT + 1}, f"format {FORMAT + 1}")])
def test_another_format_is_refused_by_name(kept, shown, tmp_path):
    path = tmp_path / "step-1.ckpt"
    torch.save({"mmcredit": {"rollout_step": 1} | kept}, path)
    with pytest.raises(UserError, match=f"step-1.ckpt has checkpoint {shown}, .*reads format {FORMAT}"):
        check_resume(path, 2)
    torch.save({"mmcredit": {"rollout_step": 1, "format": FORMAT}}, path)
    check_resume(path, 2)
