"""Checkpoints as files: complete or not there, whenever the process is killed; which is the last, which are kept.

A checkpoint ``step-40.ckpt`` is a file, or a folder with a part from every rank. It is written beside, as
``*.partial``, brought to the disk and renamed. ``last.ckpt`` and ``best_<metric>_<score>_step-40.ckpt`` are links to
such names, and a link is replaced at once. What ends in ``.partial`` or ``.link`` was left by a killed process.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmcredit.types import UserError

FORMAT = 2  # of what mmcredit keeps in a checkpoint; raise it when older ones can no longer be resumed
LAST, PARTIAL, LINK = "last.ckpt", ".partial", ".link"
COMPLETE = re.compile(r"step-(\d+)(\.\d+)?\.ckpt")
BEST = re.compile(r"best_(.+)_([^_]+)_step-(\d+)\.ckpt")


def publish(partial: Path, step: int) -> Path:
    """Give what was written its final name, a free one; the name."""
    to_disk(partial)
    folder, number = partial.parent, 0
    while (name := folder / f"step-{step}{f'.{number}' if number else ''}.ckpt").exists():
        number += 1
    partial.rename(name)
    _sync(folder)
    return name


def point(link: Path, target: Path) -> None:
    """Let a link beside its target lead there, from one moment to the next."""
    beside = link.with_name(link.name + LINK)
    beside.unlink(missing_ok=True)
    beside.symlink_to(target.name)
    beside.replace(link)
    _sync(link.parent)


def clean(folder: Path) -> None:
    """Remove what killed writes left, and links that lead nowhere."""
    for path in folder.iterdir() if folder.is_dir() else ():
        lost = path.is_symlink() and not path.exists()
        if lost or path.name.endswith((PARTIAL, LINK)):
            _remove(path)


def sweep(folder: Path, keep: int, keep_every: int | None) -> None:
    """Remove checkpoints that no link leads to, but the ``keep`` newest and those of every ``keep_every``-th step."""
    found = complete(folder)
    linked = {path.resolve() for path in folder.iterdir() if path.is_symlink()}
    for path in found[: max(len(found) - keep, 0)]:
        if path.resolve() not in linked and not (keep_every and step_of(path) % keep_every == 0):
            gone = path.with_name(path.name + PARTIAL)  # half removed, it is no checkpoint any more
            path.rename(gone)
            _remove(gone)


def complete(folder: Path) -> list[Path]:
    """Checkpoints of a folder, the newest at the end."""
    found = [path for path in folder.iterdir() if COMPLETE.fullmatch(path.name)] if folder.is_dir() else []
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, step_of(path)))


def best(folder: Path, metric: str) -> list[tuple[float, int]]:
    """Score and step of the best checkpoints of a folder by a metric."""
    found = [BEST.fullmatch(path.name) for path in folder.iterdir()] if folder.is_dir() else []
    return [(float(name[2]), int(name[3])) for name in found if name and name[1] == _plain(metric)]


def best_link(folder: Path, metric: str, score: float, step: int) -> Path:
    """The name under which a checkpoint is one of the best."""
    return folder / f"best_{_plain(metric)}_{score:.6g}_step-{step}.ckpt"


def step_of(path: Path) -> int:
    """The rollout step in the name of a checkpoint."""
    name = COMPLETE.fullmatch(path.name)
    assert name is not None, path
    return int(name[1])


def resume_from(path: str | Path) -> Path:
    """The checkpoint that a user names: itself, or the last one of a run folder.

    Raises:
        UserError: there is none.
    """
    path = Path(path)
    if path.name.endswith(PARTIAL):
        raise UserError(f"ckpt_path={path} is what a killed run left half written; use {path.parent.parent}")
    if not path.exists():
        raise UserError(f"ckpt_path={path} does not exist; use a run folder or <run>/checkpoints/{LAST}")
    if path.is_file() or (path / "meta.pt").is_file():
        return path.resolve()
    for folder in (path / "checkpoints", path):
        if (last := folder / LAST).exists():
            return last.resolve()
        if found := complete(folder):  # killed before the link
            return found[-1].resolve()
    raise UserError(f"ckpt_path={path} holds no checkpoint; use a run folder or <run>/checkpoints/{LAST}")


def check_resume(path: Path, steps: int) -> None:
    """A checkpoint of this program and version with steps left to do.

    Raises:
        UserError: it is something else.
    """
    import torch

    try:
        file = path / "meta.pt" if path.is_dir() else path
        kept = torch.load(file, weights_only=True, mmap=True)["mmcredit"]
        done = kept["rollout_step"]
    except Exception as error:  # any file can be named here, and each kind fails in its own way
        raise UserError(f"ckpt_path={path} is no checkpoint of mmcredit.fit ({type(error).__name__})") from None
    check_format(kept, path)
    if done >= steps:
        raise UserError(f"ckpt_path={path} has done {done} steps already: steps={steps} must be above that")


def check_format(kept: dict[str, Any], path: Path | str) -> None:
    """Refuse what another version of this program saved.

    Raises:
        UserError: with both formats.
    """
    if (found := kept.get("format")) != FORMAT:
        raise UserError(
            f"ckpt_path={path} has checkpoint format {'none' if found is None else found}, this version of mmcredit "
            f"reads format {FORMAT}: resume with the version that wrote it, or start anew from its policy/ folder"
        )


def replace_folder(partial: Path, folder: Path) -> None:
    """Put a complete folder in the place of another; a kill in between leaves at least one of them."""
    to_disk(partial)
    before = folder.with_name(folder.name + ".before" + PARTIAL)
    _remove(before)
    if folder.exists():
        folder.rename(before)
    partial.rename(folder)
    _sync(folder.parent)
    _remove(before)


def to_disk(path: Path) -> None:
    """Wait until a file, or all of a folder, has reached the disk."""
    for part in _parts(path):
        _sync(part)


def _parts(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from sorted(path.rglob("*"))
    yield path


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _plain(metric: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", metric)
