"""Which checkpoints a run leaves, as files, folders, and in the background."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.trainer.states import TrainerFn

from mmcredit.checkpoints import complete, step_of
from mmcredit.module import CreditModule
from mmcredit.observers.checkpoint import Checkpoint
from mmcredit.types import UserError


class Trainer:
    """Saves its step by the writer that it was given, or as a folder."""

    is_global_zero = True

    def __init__(self, folder: bool = False) -> None:
        self.folder, self.step, self.callback_metrics = folder, 0, {}
        self.strategy = SimpleNamespace(checkpoint_io=None, broadcast=lambda value: value)
        self.strategy._save_distributed_checkpoint = folder
        self.state = SimpleNamespace(fn=TrainerFn.FITTING)

    def save_checkpoint(self, path: Path) -> None:
        content = {"step": torch.tensor(self.step)}
        if self.folder:
            path.mkdir()
            torch.save(content, path / "part")
        else:
            self.strategy.checkpoint_io.save_checkpoint(content, path)
            content["step"].fill_(-1)  # training goes on: what is written later must be a copy


class Step(CreditModule):
    def __init__(self, step: int) -> None:
        torch.nn.Module.__init__(self)
        self.rollout_step = step


def live(checkpoint: Checkpoint, trainer: Trainer, scores: dict[int, float], steps: range) -> None:
    checkpoint.setup(trainer, None, "fit")
    for step in steps:
        trainer.step = step
        checkpoint.on_train_batch_end(trainer, Step(step), None, None, 0)
        if step in scores:
            trainer.callback_metrics = {"val/accuracy": torch.tensor(scores[step])}
            checkpoint.on_validation_end(trainer, Step(step))
    checkpoint.on_train_end(trainer, Step(steps[-1]))
    if trainer.strategy.checkpoint_io is not None:
        trainer.strategy.checkpoint_io.teardown()


def links(folder: Path) -> dict[str, int]:
    """Name of each link -> step in the checkpoint that it leads to."""
    found = {}
    for path in folder.iterdir():
        if path.is_symlink():
            file = path / "part" if path.is_dir() else path
            found[path.name] = int(torch.load(file, weights_only=True)["step"])
            assert step_of(path.resolve()) == found[path.name]
    return found


SCORES = {2: 0.5, 4: 0.75, 6: 0.25, 8: 0.75, 10: 0.625}


@pytest.mark.parametrize("kind", ["file", "folder", "background"])
def test_last_best_newest_and_every_so_many(kind, tmp_path):
    checkpoint = Checkpoint(str(tmp_path), 3, keep=2, keep_every=9, keep_best=2, background=kind == "background")
    live(checkpoint, Trainer(kind == "folder"), SCORES, range(1, 12))
    best = {"best_val-accuracy_0.75_step-4.ckpt": 4, "best_val-accuracy_0.75_step-8.ckpt": 8}
    assert links(tmp_path) == {"last.ckpt": 11, **best}
    assert sorted(map(step_of, complete(tmp_path))) == [4, 8, 9, 11]
    assert len(list(tmp_path.iterdir())) == 7


@pytest.mark.parametrize("kind", ["file", "background"])
def test_a_start_in_the_same_folder_knows_the_best_and_cleans_up(kind, tmp_path):
    live(Checkpoint(str(tmp_path), keep_best=2), Trainer(), SCORES, range(1, 7))
    (tmp_path / "step-7.ckpt.partial").write_bytes(b"half")
    (tmp_path / "last.ckpt.link").symlink_to("step-7.ckpt")
    (tmp_path / "best_val-accuracy_0.9_step-99.ckpt").symlink_to("step-99.ckpt")
    checkpoint = Checkpoint(str(tmp_path), keep_best=2, background=kind == "background")
    live(checkpoint, Trainer(), SCORES, range(7, 12))
    assert links(tmp_path) == {
        "last.ckpt": 11, "best_val-accuracy_0.75_step-4.ckpt": 4, "best_val-accuracy_0.75_step-8.ckpt": 8,
    }  # fmt: skip
    assert sorted(map(step_of, complete(tmp_path))) == [4, 8, 11]


def test_the_smallest_may_be_the_best(tmp_path):
    live(Checkpoint(str(tmp_path), keep_best=1, mode="min"), Trainer(), SCORES, range(1, 12))
    assert links(tmp_path) == {"last.ckpt": 11, "best_val-accuracy_0.25_step-6.ckpt": 6}


def test_training_does_not_wait_for_the_background(tmp_path):
    checkpoint, trainer, go = Checkpoint(str(tmp_path), background=True), Trainer(), threading.Event()
    checkpoint.setup(trainer, None, "fit")
    io = trainer.strategy.checkpoint_io
    io.checkpoint_io = None  # as Lightning's strategies do with a writer of their own
    write = io.direct.save_checkpoint
    io.direct.save_checkpoint = lambda *args, **options: go.wait(10) and write(*args, **options)
    trainer.step = 1
    checkpoint.on_train_end(trainer, Step(1))
    assert not complete(tmp_path) and not (tmp_path / "last.ckpt").exists()
    go.set()
    io.teardown()
    assert links(tmp_path) == {"last.ckpt": 1}


def test_what_failed_to_be_written_is_no_checkpoint(tmp_path, monkeypatch):
    trainer, checkpoint = Trainer(), Checkpoint(str(tmp_path))
    live(checkpoint, trainer, {}, range(1, 3))

    def full(content, path):
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(OSError, match="no space"):
        checkpoint.on_train_end(trainer, Step(3))
    assert links(tmp_path) == {"last.ckpt": 2}


def test_mistakes_are_named(tmp_path):
    for options in ({"every": 0}, {"keep": 0}, {"keep_best": -1}, {"keep_every": -1}):
        ((name, value),) = options.items()
        with pytest.raises(UserError, match=f"observers.checkpoint.{name}={value} must be at least"):
            Checkpoint(str(tmp_path), **options)
    with pytest.raises(UserError, match="mode=best must be max or min"):
        Checkpoint(str(tmp_path), mode="best")
    with pytest.raises(UserError, match="checkpoint_folder=false"):
        Checkpoint(str(tmp_path), background=True).setup(Trainer(folder=True), None, "fit")
    checkpoint, trainer = Checkpoint(str(tmp_path), keep_best=1, monitor="val/f1"), Trainer()
    with pytest.raises(UserError, match="monitor=val/f1 was not measured; there are: val/accuracy"):
        live(checkpoint, trainer, SCORES, range(1, 3))
