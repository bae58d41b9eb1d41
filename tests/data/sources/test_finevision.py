"""FineVision: streamed, filtered by ratings, kept on disk."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data import corpora

from mmcredit.data.sources import finevision
from mmcredit.data.sources.finevision import FineVision
from mmcredit.data.sources.rows import batches, load
from mmcredit.types import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with corpora.cache(tmp_path_factory.mktemp("cache")):
        yield


def row(index: int = 0, **changes: Any) -> dict[str, Any]:
    return {**corpora.finevision_row(index), **changes}


def read(folder: Path, *rows: dict[str, Any], **options: Any) -> FineVision:
    return FineVision(corpora.finevision(folder / "fv", {"ai2d": rows}), **{"configs": ["ai2d"], **options})


def names(source: FineVision) -> list[str]:
    return [source.bare(i).id for i in range(len(source))]


def test_the_first_rows_of_each_subset_are_kept(tmp_path: Path) -> None:
    path = corpora.finevision(tmp_path / "fv")
    source = FineVision(path, take=2, configs=["ai2d", "aokvqa"])
    assert names(source) == ["ai2d:0", "ai2d:1", "aokvqa:0", "aokvqa:1"]
    assert [s.answer for s in source] == [corpora.left(0), corpora.left(1)] * 2
    assert source[1].images[0].tobytes() == corpora.picture(1).tobytes()
    assert source.bare(0).meta["source"] == "ai2d"


def test_all_turns(tmp_path: Path) -> None:
    source = read(tmp_path, row(0), row(1), turns="all")
    assert names(source) == ["ai2d:0", "ai2d:0#1", "ai2d:1", "ai2d:1#1"]
    assert source.bare(1).question.endswith("(1)")
    assert source[1].images[0].tobytes() == corpora.picture(0).tobytes()


def test_ratings_filter_turns_and_count_as_rows_that_were_taken(tmp_path: Path) -> None:
    rows = [row(0, relevance_ratings=[3, 5]), row(1, relevance_ratings=[4, 2]), row(2), row(3)]
    first = read(tmp_path / "first", *rows, ratings={"relevance": 4}, take=2)
    assert names(first) == ["ai2d:1", "ai2d:2"]
    assert first.report.dropped == {"rating_relevance": 1}
    assert (first.report.read, first.report.kept) == (3, 2)
    every = read(tmp_path / "every", *rows, ratings={"relevance": 4}, take=2, turns="all")
    assert names(every) == ["ai2d:0#1", "ai2d:1"]


def test_the_lowest_rating_stands_in_for_one_that_is_missing(tmp_path: Path) -> None:
    rows = [row(0, relevance_ratings=None, relevance_min=4), row(1, relevance_ratings=None, relevance_min=None)]
    source = read(tmp_path, *rows, ratings={"relevance": 4})
    assert names(source) == ["ai2d:0"] and source.report.dropped == {"rating_relevance": 1}


def test_long_answers_are_left_out(tmp_path: Path) -> None:
    long = row(0, texts=[{"user": "why?", "assistant": "because " * 20}])
    assert names(read(tmp_path, long, row(1))) == ["ai2d:1"]
    assert names(read(tmp_path / "all", long, row(1), longest_answer=200)) == ["ai2d:0", "ai2d:1"]


@pytest.mark.parametrize(
    "bad",
    [{"images": [{"bytes": b"no picture", "path": None}]}, {"texts": []}, {"images": [{"bytes": None, "path": "/a"}]},
     {"texts": [{"user": "", "assistant": "2"}]}, {"texts": [{"user": "q", "assistant": None}]},
     {"texts": [{"user": "<image><image>", "assistant": "2"}]}],
)  # fmt: skip
def test_bad_rows(tmp_path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"/ai2d:1: .*\(data\.on_bad_row=skip"):
        read(tmp_path / "raise", row(0), row(1, **bad), row(2))
    source = read(tmp_path / "skip", row(0), row(1, **bad), row(2), on_bad_row="skip")
    assert names(source) == ["ai2d:0", "ai2d:2"]
    assert source.report.dropped.total() == 1 and sum(map(len, source.report.examples.values())) == 1


def test_a_row_without_pictures_is_text(tmp_path: Path) -> None:
    assert read(tmp_path, row(0), row(1, images=[]))[1].images == ()


def test_what_was_kept_is_not_streamed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row(0, relevance_ratings=[1, 1]), *(row(i) for i in range(1, 5))]
    first = read(tmp_path, *rows, ratings={"relevance": 2}, take=3)
    monkeypatch.setattr(finevision, "load", lambda *args, **options: pytest.fail("streamed again"))
    again = FineVision(tmp_path / "fv", configs=["ai2d"], ratings={"relevance": 2}, take=3)
    assert names(again) == names(first) == ["ai2d:1", "ai2d:2", "ai2d:3"]
    assert again.report == first.report
    val = FineVision(tmp_path / "fv", configs=["ai2d"], ratings={"relevance": 2}, take=3, part="val", val_share=0.5)
    train = FineVision(tmp_path / "fv", configs=["ai2d"], ratings={"relevance": 2}, take=3, part="train", val_share=0.5)
    assert sorted([*names(val), *names(train)]) == names(first)


@pytest.mark.parametrize(
    "changed", [{"take": 2}, {"longest_answer": 50}, {"turns": "all"}, {"ratings": {"formatting": 1}}]
)
def test_other_settings_are_another_selection(tmp_path: Path, changed: dict[str, Any]) -> None:
    kept = tmp_path / "kept"
    read(tmp_path, row(0), row(1), cache=kept)
    FineVision(tmp_path / "fv", configs=["ai2d"], cache=kept, **changed)
    assert len(list(kept.glob("*.arrow"))) == 2 and not list(kept.glob("*partial*"))


def test_a_stream_that_ends_halfway_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(dataset: Any) -> Iterator[Any]:
        yield from list(real(dataset))[:2]
        raise UserError("the data stream breaks off")

    real = finevision.batches
    monkeypatch.setattr(finevision, "batches", broken)
    with pytest.raises(UserError, match="breaks off"):
        read(tmp_path, *(row(i) for i in range(4)), cache=tmp_path / "kept")
    monkeypatch.undo()
    whole = FineVision(tmp_path / "fv", configs=["ai2d"], cache=tmp_path / "kept")
    assert len(whole) == 4 and len(list((tmp_path / "kept").glob("*.arrow"))) == 1


def test_no_more_of_the_stream_is_read_than_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def counted(dataset: Any) -> Iterator[Any]:
        for table in real(dataset):
            drawn.append(table)
            yield table

    real = finevision.batches
    monkeypatch.setattr(finevision, "batches", counted)
    read(tmp_path, *(row(i) for i in range(6)), take=2)
    assert len(drawn) <= 3


def test_one_row_group_is_in_memory_at_a_time(tmp_path: Path) -> None:
    """16 groups of 1 MiB: a reader that runs ahead holds most of them."""
    table = pa.table({"x": [random.Random(i).randbytes(2**18) for i in range(64)]})
    pq.write_table(table, tmp_path / "train.parquet", row_group_size=4, compression="none", use_dictionary=False)
    size, held = table.nbytes, []
    del table
    before = pa.total_allocated_bytes()
    for _ in batches(load(tmp_path, stream=True)):
        time.sleep(0.002)  # time to run ahead
        held.append(pa.total_allocated_bytes() - before)
    assert len(held) == 64 and max(held) < size / 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"turns": "last"}, "data.turns 'last' must be one of first, all"),
        ({"ratings": {"beauty": 3}}, "data.ratings 'beauty' must be one of relevance, image_correspondence"),
        ({"take": 0}, "data.take=0 must be at least 1"),
        ({"configs": ["chart"]}, "holds no parquet, jsonl, json, arrow file"),
    ],
)
def test_unknown_settings(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        read(tmp_path, row(0), **options)


def test_columns_of_another_data_set(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no column for the texts; known names are texts; found are .*problem"):
        FineVision(corpora.geometry3k(tmp_path / "g"))
