"""Pictures as members of a zip: found, kept inside the root, and refused when they cannot be unpacked."""

from __future__ import annotations

import pickle
import zipfile
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.data import corpora

from mmcredit.data.cells import ImageError
from mmcredit.data.sources import pictures
from mmcredit.data.sources.pictures import Pictures


def packed(folder: Path, method: int = zipfile.ZIP_DEFLATED) -> Pictures:
    with zipfile.ZipFile(folder / "images.zip", "w", method) as archive:
        for i in range(3):
            archive.writestr(f"images/{i}.png", corpora.encoded(i))
        archive.writestr("flat.png", corpora.encoded(3))
        archive.writestr("../out.png", corpora.encoded(4))
    return Pictures(folder)


def refused(found: Pictures, cell: object) -> ImageError:
    with pytest.raises(ImageError) as caught:
        found.size(cell)
    return caught.value


@pytest.mark.parametrize(
    ("name", "index"), [("images/1.png", 1), ("./images/2.png", 2), ("flat.png", 3), ("images/flat.png", 3)]
)
def test_a_path_to_no_file_is_a_member(tmp_path: Path, name: str, index: int) -> None:
    found = packed(tmp_path)
    for cell in (name, {"bytes": None, "path": name}):
        assert found.open(cell).tobytes() == corpora.picture(index).tobytes()
        assert found.size(cell) == (corpora.WIDTH, corpora.HEIGHT)
        assert found.encoded(cell) == corpora.encoded(index)


def test_a_file_is_preferred(tmp_path: Path) -> None:
    found = packed(tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.png").write_bytes(corpora.encoded(5))
    assert found.open("images/1.png").tobytes() == corpora.picture(5).tobytes()


@pytest.mark.parametrize("name", ["../out.png", "images/../../out.png", "/images/1.png"])
def test_no_name_leaves_the_root(tmp_path: Path, name: str) -> None:
    """Though the zip has a member ``../out.png``: members are looked up, never unpacked to the disk."""
    assert refused(packed(tmp_path), name).reason == "image_outside_root"


@pytest.mark.parametrize("name", ["images/9.png", "images", "images/", "1.png"])
def test_no_such_member(tmp_path: Path, name: str) -> None:
    assert refused(packed(tmp_path), name).reason == "image_missing"


def test_a_broken_zip(tmp_path: Path) -> None:
    (tmp_path / "images.zip").write_bytes(b"PK no zip")
    assert refused(Pictures(tmp_path), "images/0.png").reason == "image_archive"


def test_a_broken_member(tmp_path: Path) -> None:
    packed(tmp_path, zipfile.ZIP_STORED)
    data = (tmp_path / "images.zip").read_bytes()
    (tmp_path / "images.zip").write_bytes(data.replace(corpora.encoded(1)[40:60], b"\0" * 20))
    problem = refused(Pictures(tmp_path), "images/1.png")
    assert (problem.reason, str(problem)) == (
        "image_archive",
        "image images/1.png cannot be unpacked (BadZipFile)",
    )


def test_a_member_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MAX_BYTES", 100)
    problem = refused(packed(tmp_path), "images/1.png")
    assert problem.reason == "image_archive" and "unpacks to" in str(problem)


def read(found: Pictures, count: int) -> list[bytes]:
    return [found.open(f"images/{i % 3}.png").tobytes() for i in range(count)]


def test_forked_processes_have_their_own_handles(tmp_path: Path) -> None:
    """A shared file position would mix what two processes read."""
    found = packed(tmp_path)
    alone = read(found, 60)
    with get_context("fork").Pool(2) as pool:
        assert pool.starmap(read, [(found, 60)] * 4) == [alone] * 4
    assert read(pickle.loads(pickle.dumps(found)), 3) == alone[:3]
