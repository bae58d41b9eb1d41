"""Rows on disk: files, shards, splits, subsets, what ``datasets`` saved, hub names, and what is said otherwise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data import corpora

from mmcredit.data.sources.rows import Rows, batches, fetch, is_hub_name, load
from mmcredit.data.sources.virl39k import Virl39k
from mmcredit.types import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with corpora.cache(tmp_path_factory.mktemp("cache")):
        yield


def shard(path: Path, *values: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": list(values)}), path)


def values(*args: object, **options: object) -> list[int]:
    return Rows(load(*args, **options)).column("x")  # type: ignore[arg-type]


def test_shards_are_read_in_order(tmp_path: Path) -> None:
    shard(tmp_path / "data" / "train-00001-of-00002.parquet", 3)
    shard(tmp_path / "data" / "train-00000-of-00002.parquet", 1, 2)
    shard(tmp_path / "data" / "test-00000-of-00001.parquet", 9)
    assert values(tmp_path) == [1, 2, 3]
    assert values(tmp_path, "test") == [9]


@pytest.mark.parametrize("name", ["val.parquet", "validation/0000.parquet", "data/dev-00000.parquet"])
def test_names_of_a_split(tmp_path: Path, name: str) -> None:
    shard(tmp_path / "train.parquet", 1)
    shard(tmp_path / name, 2)
    assert values(tmp_path) == [1]
    assert values(tmp_path, "validation") == values(tmp_path, "val") == [2]


@pytest.mark.parametrize("name", ["39Krelease.parquet", "part-0.parquet", "constrained.parquet", "attest.parquet"])
def test_a_file_that_tells_no_split_belongs_to_every_one(tmp_path: Path, name: str) -> None:
    shard(tmp_path / name, 1)
    assert values(tmp_path) == values(tmp_path, "test") == [1]


def test_a_subset_is_a_subfolder(tmp_path: Path) -> None:
    shard(tmp_path / "ai2d" / "train-0.parquet", 1)
    shard(tmp_path / "clevr" / "train-0.parquet", 2)
    assert values(tmp_path, config="clevr") == [2]


def test_json_lines_and_json_lists(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
    (tmp_path / "b.json").write_text(json.dumps([{"x": 3}]))
    assert values(tmp_path / "a.jsonl") == [1, 2]
    assert values(tmp_path / "b.json") == [3]


def test_parquet_is_preferred_to_json_beside_it(tmp_path: Path) -> None:
    shard(tmp_path / "a.parquet", 1)
    (tmp_path / "notes.json").write_text('{"y": 1}')
    assert values(tmp_path) == [1]


@pytest.mark.parametrize("dictionary", [False, True])
def test_what_datasets_saved(tmp_path: Path, dictionary: bool) -> None:
    saved = datasets.Dataset.from_dict({"x": [1, 2]})
    (datasets.DatasetDict({"train": saved}) if dictionary else saved).save_to_disk(tmp_path / "saved")
    assert values(tmp_path / "saved") == [1, 2]


def test_a_stream_reads_one_row_at_a_time_and_leaves_pictures_encoded(tmp_path: Path) -> None:
    corpora.mmk12(tmp_path / "m")
    tables = list(batches(load(tmp_path / "m", stream=True)))
    assert [len(table) for table in tables] == [1] * 4
    assert tables[0].to_pylist()[0]["image"]["bytes"] == corpora.encoded(0)


def test_rows_leave_pictures_encoded(tmp_path: Path) -> None:
    corpora.mmk12(tmp_path / "m")
    assert Rows(load(tmp_path / "m"))[3]["image"]["bytes"] == corpora.encoded(3)


MISTAKES = {
    "nothing there": ("none.parquet", {}, "does not exist; it can be a file, a folder or a hub name (owner/name)"),
    "unknown ending": ("notes.txt", {}, "ends in .txt; known endings are parquet, jsonl, json, arrow"),
    "no such split": ("shards", {"split": "test"}, "has no split 'test' (data.split); it has train"),
    "no files": ("empty", {}, "holds no parquet, jsonl, json, arrow file (data.path)"),
    "no such subset": ("shards", {"config": "clevr"}, "holds no parquet, jsonl, json, arrow file"),
    "broken parquet": ("broken.parquet", {}, "cannot be read (ArrowInvalid: Parquet magic bytes"),
    "split of a saved one": ("saved", {"split": "test"}, "has no split 'test' (data.split); it has train"),
}


@pytest.mark.parametrize(("name", "options", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_one_line(tmp_path: Path, name: str, options: dict[str, str], words: str) -> None:
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 not at all")
    shard(tmp_path / "shards" / "train-0.parquet", 1)
    datasets.DatasetDict({"train": datasets.Dataset.from_dict({"x": [1]})}).save_to_disk(tmp_path / "saved")
    with pytest.raises(UserError) as caught:
        load(tmp_path / name, **options)  # type: ignore[arg-type]
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "is_name"),
    [("TIGER-Lab/ViRL39K", True), ("HuggingFaceM4/FineVision", True), ("my/rows.jsonl", False), ("a/b/c", False),
     ("/a/b", False), ("./a", False), ("~/a", False), ("../b", False), ("rows", False)],
)  # fmt: skip
def test_names_on_the_hub(path: str, is_name: bool) -> None:
    assert is_hub_name(path) is is_name


def test_a_folder_here_is_no_name_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert not is_hub_name("owner/name")


def test_a_hub_name_goes_to_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **options: asked.append((args, options)))
    load("owner/name", "test", "subset", "v1", stream=True)
    assert asked == [(("owner/name", "subset"), {"split": "test", "revision": "v1", "streaming": True})]


def test_a_corpus_with_pictures_beside_its_table_is_fetched_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpora.virl39k(tmp_path / "snapshot")
    asked = []

    def download(name: str, **options: object) -> str:
        asked.append((name, options))
        return str(tmp_path / "snapshot")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert len(Virl39k("TIGER-Lab/ViRL39K", revision="v1")[0].images) == 1
    assert asked == [("TIGER-Lab/ViRL39K", {"repo_type": "dataset", "revision": "v1"})]


def test_an_unreachable_hub_is_said_in_one_line() -> None:
    for ask in (load, fetch):
        with pytest.raises(UserError, match=r"^data\.path=owner/none (cannot be read|is not here)") as caught:
            ask("owner/none")
        assert "\n" not in str(caught.value)
