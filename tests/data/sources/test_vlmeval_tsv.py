"""VLMEvalKit's TSV: text stays text, pictures are shared, options are listed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.data import corpora

from mmcredit.data.sources.vlmeval_tsv import SELECT, VLMEvalTSV
from mmcredit.types import UserError

FIRST, SHARED, SEVERAL = corpora.tsv_rows()


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with corpora.cache(tmp_path_factory.mktemp("cache")):
        yield


def read(folder: Path, *rows: dict[str, str], **options: str) -> VLMEvalTSV:
    return VLMEvalTSV(corpora.tsv(folder, rows), **options)


def test_cells_that_read_like_nothing_or_like_numbers_stay_text(tmp_path: Path) -> None:
    (sample,) = read(tmp_path, FIRST)
    assert sample.question == (f"Question: Which digit is on the left?\nOptions:\nA. NA\nB. None\nC. 1.50\n{SELECT}")
    assert sample.meta["choices"].split("\n") == ["NA", "None", "1.50"]
    assert (sample.id, sample.answer, sample.family, sample.meta["split"]) == ("10", "A", "digits", "val")


def test_a_shared_picture_a_hint_and_new_lines_in_a_cell(tmp_path: Path) -> None:
    first, second = read(tmp_path, FIRST, SHARED)
    assert second.images[0].tobytes() == first.images[0].tobytes() == corpora.picture(0).tobytes()
    assert second.question.startswith("Hint: look,\ntwice\nQuestion: Which")


def test_the_row_that_is_referred_to_may_come_later(tmp_path: Path) -> None:
    source = read(tmp_path, SHARED, FIRST)
    assert source[0].images[0].tobytes() == corpora.picture(0).tobytes()


def test_several_pictures_in_a_list_and_a_question_without_options(tmp_path: Path) -> None:
    (sample,) = read(tmp_path, SEVERAL)
    assert [p.tobytes() for p in sample.images] == [corpora.picture(i).tobytes() for i in (1, 2)]
    assert (sample.question, sample.answer) == ("Which digit is on the left?", "true")
    assert "choices" not in sample.meta


def test_options_may_leave_a_letter_out(tmp_path: Path) -> None:
    (sample,) = read(tmp_path, {**FIRST, "B": "", "D": "last"})
    assert "A. NA\nC. 1.50\nD. last\n" in sample.question


def test_numbered_markers(tmp_path: Path) -> None:
    (sample,) = read(tmp_path, {**SEVERAL, "question": "Is <image 2> left of <image 1>?"})
    assert sample.question == "Is <image> left of <image>?"
    assert sample.images[0].tobytes() == corpora.picture(2).tobytes()


def test_fields_longer_than_csv_allows(tmp_path: Path) -> None:
    """Python's csv module stops at 131,072 characters."""
    blank = corpora.based(0)
    padded = blank + "\n" * (csv.field_size_limit() + 1000)
    assert read(tmp_path, {**FIRST, "image": padded})[0].images[0].size == (corpora.WIDTH, corpora.HEIGHT)


@pytest.mark.parametrize("beside", [False, True])
def test_paths_where_there_is_no_base64(tmp_path: Path, beside: bool) -> None:
    place = tmp_path / "images" / "Digits" if beside else tmp_path
    place.mkdir(parents=True, exist_ok=True)
    for i in range(2):
        (place / f"{i}.png").write_bytes(corpora.encoded(i))
    base = {key: value for key, value in FIRST.items() if key != "image"}
    one, two = read(
        tmp_path, {**base, "image_path": "0.png"}, {**base, "index": "11", "image_path": "['0.png', '1.png']"}
    )
    assert one.images[0].tobytes() == corpora.picture(0).tobytes()
    assert [p.tobytes() for p in two.images] == [corpora.picture(i).tobytes() for i in (0, 1)]


def test_no_picture_at_all(tmp_path: Path) -> None:
    (sample,) = read(tmp_path, {**FIRST, "image": ""})
    assert sample.images == ()


BAD = {
    "reference to none": ({"image": "99"}, "is the index of no row with a picture"),
    "reference to itself": ({"image": "10"}, "is the index of no row with a picture"),
    "code in a list": (
        {"image": "[__import__('os').getcwd()]" + " " * 64},
        "a list of pictures must be a list of texts",
    ),
    "numbers in a list": ({"image": str(list(range(50)))}, "a list of pictures must be a list of texts"),
    "nested without end": ({"image": "[" * 100_000}, "a list of pictures must be a list of texts"),
    "no base64": ({"image": "not base64 at all! " * 8}, "the picture is no base64"),
    "base64 of text": ({"image": "aGVsbG8g" * 20}, "cannot be read"),
    "out of the root": ({"image": "", "image_path": "../../etc/passwd"}, "lies outside the data folder"),
    "no answer": ({"answer": ""}, "answer is missing or empty"),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_bad_rows(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=r"Digits\.tsv:0: ") as caught:
        read(tmp_path, {**FIRST, **changes})
    assert words in str(caught.value) and len(str(caught.value)) < 600
    assert len(read(tmp_path, {**FIRST, **changes}, SEVERAL, on_bad_row="skip")) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("question\tanswer\nq\ta\n", "with index; it has"),
        ("index\tquestion\tquestion\tanswer\n1\tq\tq\ta\n", "must name each column once"),
        ("index\tquestion\n1\tq\n", "no column for the answer"),
        ("index\tquestion\tanswer\n1\tq\ta\tb\tc\n2\t\t\t\t\t\t\t\n", "is no tab-separated table"),
        ("", "the first line must name"),
        ("\0\0\xff", "the first line must name"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "a.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        VLMEvalTSV(tmp_path / "a.tsv")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_rows_of_pictures_are_not_held_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than a chunk, whose option columns are empty in some chunks."""
    monkeypatch.setattr("mmcredit.data.sources.vlmeval_tsv.CHUNK", 2)
    rows = [{**(FIRST if i in (0, 7) else SEVERAL), "index": str(i)} for i in range(8)]
    assert [bool(sample.meta.get("choices")) for sample in read(tmp_path, *rows)] == [i in (0, 7) for i in range(8)]
