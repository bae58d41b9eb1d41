"""Pictures are decoded once: a second look asks the cache, another file is another picture."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image
from real_files import half, rotated, saved, scene

from mmcredit.data import verdicts
from mmcredit.data.images import Facts, ImageError
from mmcredit.data.verdicts import Verdicts, cache_folder


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is decoded."""
    names, read = list[str](), verdicts.read

    def watched(found, exif=True):
        names.append(found.name)
        return read(found, exif)

    monkeypatch.setattr(verdicts, "read", watched)
    return names


@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_sound_picture_is_decoded_once_and_forever(tmp_path: Path, decoded: list[str], as_bytes: bool) -> None:
    (tmp_path / "a.jpg").write_bytes(rotated())
    cell = rotated() if as_bytes else "a.jpg"
    for _ in range(2):
        with Verdicts(tmp_path / "cache") as known:
            assert [known.facts(cell, tmp_path) for _ in range(2)] == [Facts(24, 16, 6)] * 2
    assert len(decoded) == 1


def test_a_changed_file_is_decoded_again(tmp_path: Path, decoded: list[str]) -> None:
    file = tmp_path / "a.png"
    with Verdicts(tmp_path / "cache") as known:
        file.write_bytes(saved(scene((60, 40)), "PNG"))
        assert known.facts("a.png", tmp_path) == Facts(60, 40)
        file.write_bytes(saved(scene((50, 40)), "PNG"))
        assert known.facts("a.png", tmp_path) == Facts(50, 40)
        before = file.stat()
        file.write_bytes(half(file.read_bytes()).ljust(before.st_size, b"\0"))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        with pytest.raises(ImageError):
            known.facts("a.png", tmp_path)


def test_a_bad_picture_is_looked_at_each_time(tmp_path: Path, decoded: list[str]) -> None:
    with Verdicts(tmp_path) as known:
        for _ in range(2):
            with pytest.raises(ImageError, match="empty"):
                known.facts(b"")
    assert len(decoded) == 2


def test_a_known_picture_may_still_not_lie_outside(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(saved(scene(), "PNG"))
    (tmp_path / "root").mkdir()
    with Verdicts(tmp_path / "cache") as known:
        known.facts("a.png", tmp_path)
        with pytest.raises(ImageError, match="outside"):
            known.facts("../a.png", tmp_path / "root")


def test_without_a_place_for_the_cache_pictures_are_decoded(tmp_path: Path, decoded: list[str]) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "noise"):
        if folder.name == "noise":
            folder.mkdir()
            for name in os.listdir(cache_folder()) or ["images"]:
                (folder / name).write_bytes(b"no database")
        with Verdicts(folder) as known:
            assert known.facts(saved(Image.new("L", (9, 9)), "PNG")) == Facts(9, 9)
    assert len(decoded) == 2


def test_place_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MMCREDIT_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("MMCREDIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "mmcredit"
