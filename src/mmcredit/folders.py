"""The folder of a run: of one start alone, and taken away again where that start is refused."""

from __future__ import annotations

from functools import cache
from itertools import count
from pathlib import Path

from mmcredit.processes import agree, srun

HYDRAS = ("config.yaml", "hydra.yaml", "overrides.yaml", "multirun.yaml")
made: set[Path] = set()  # folders that this process created


@cache
def own_folder(path: str) -> str:
    """A folder that no other start has, created: ``path``, or ``path-2``, ``path-3`` ... where that is taken.

    All processes of a run get the same. Under srun it is ``path``, which job and step name: a requeued job goes on
    there.
    """
    return path if srun() else agree(f"folder/{path}", lambda: claim(path))


def claim(path: str) -> str:
    """The first free name, created by this process alone."""
    for number in count(1):
        name = path if number == 1 else f"{path}-{number}"
        if create(Path(name)):
            return name
    raise AssertionError


def create(folder: Path) -> bool:
    """Create a folder and those above it; whether it was not there before."""
    folder = folder.absolute()
    new = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return False
    made.update(new)
    return True


def take_away(folder: Path, subdir: str | None) -> None:
    """Remove a run folder that this process created and in which only Hydra has written, then those above it likewise.

    Args:
        subdir: name of Hydra's own folder in it.
    """
    while folder in made or folder.parent in made:  # the latter: a job of a sweep
        inner = folder / (subdir or "")
        files = [place / name for place in {folder, inner} for name in HYDRAS]
        files += [log for log in folder.glob("*.log") if not log.stat().st_size]
        if {*folder.rglob("*")} - {*files, inner}:
            return
        for file in files:
            file.unlink(missing_ok=True)
        for place in dict.fromkeys((inner, folder)):
            if place.is_dir():
                place.rmdir()
        folder = folder.parent
