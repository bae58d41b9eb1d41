"""``last.ckpt`` is always a complete checkpoint: a file, or a link to a folder."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from mmcredit.observers.checkpoint import Checkpoint


class Saving:
    """A trainer that saves the step, as a file or as a folder."""

    is_global_zero = True
    strategy = SimpleNamespace(barrier=lambda: None)

    def __init__(self, step: int, folder: bool) -> None:
        self.step, self.folder = step, folder

    def save_checkpoint(self, path: Path) -> None:
        if self.folder:
            path.mkdir()
            path /= "part"
        path.write_text(str(self.step))


def save(checkpoint: Checkpoint, step: int, folder: bool) -> None:
    checkpoint._save(Saving(step, folder), SimpleNamespace(rollout_step=step))


def saved(folder: Path) -> str:
    last = folder / "last.ckpt"
    return (last / "part" if last.is_dir() else last).read_text()


@pytest.mark.parametrize("kinds", [(True, True, True), (False, False), (False, True, False, True)])
def test_the_last_one_alone_is_kept(tmp_path, kinds):
    checkpoint = Checkpoint(str(tmp_path))
    for step, folder in enumerate(kinds):
        save(checkpoint, step, folder)
        assert saved(tmp_path) == str(step)
        assert len(list(tmp_path.iterdir())) == 1 + folder  # the link and its folder


def test_what_a_killed_run_left_is_no_checkpoint(tmp_path):
    checkpoint = Checkpoint(str(tmp_path))
    save(checkpoint, 1, True)
    (tmp_path / "last.ckpt.partial").mkdir()
    (tmp_path / "last.ckpt.partial" / "other part").touch()
    assert saved(tmp_path) == "1"
    save(checkpoint, 2, True)
    assert [p.name for p in (tmp_path / "last.ckpt").iterdir()] == ["part"] and saved(tmp_path) == "2"


def test_the_same_step_again_loses_nothing(tmp_path):
    checkpoint = Checkpoint(str(tmp_path))
    for _ in range(3):
        before = (tmp_path / "last.ckpt").resolve()
        save(checkpoint, 3, True)
        assert saved(tmp_path) == "3" and (tmp_path / "last.ckpt").resolve() != before
        assert len(list(tmp_path.iterdir())) == 2
