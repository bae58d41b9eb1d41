"""What the corpora share: cells, markers, golds, ids, columns, and what is said of rows that cannot be used."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.data import corpora

from mmcredit.data.datamodule import DataModule
from mmcredit.data.gate import BadRow
from mmcredit.data.sources.easyr1 import EasyR1
from mmcredit.data.templates import Template
from mmcredit.types import UserError

ROW = {"problem": "How many?", "answer": "2", "images": []}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with corpora.cache(tmp_path_factory.mktemp("cache")):
        yield


def read(folder: Path, *rows: dict[str, Any], schema: pa.Schema | None = None, **options: Any) -> EasyR1:
    pq.write_table(pa.Table.from_pylist(list(rows), schema), folder / "rows.parquet")
    return EasyR1(folder / "rows.parquet", **options)


def refused(folder: Path, row: dict[str, Any], place: int = 0, **options: Any) -> str:
    with pytest.raises(UserError) as caught:
        read(folder, row, **options)
    message = str(caught.value)
    assert message.startswith(f"{folder}/rows.parquet:{place}: ") and "\n" not in message
    return message


# Trap 1: where the pictures are


@pytest.mark.parametrize("name", ["image", "images"])
@pytest.mark.parametrize("several", [False, True], ids=["single", "list"])
def test_one_picture_or_a_list_under_either_name(tmp_path: Path, name: str, several: bool) -> None:
    cell = [corpora.struct(0), corpora.struct(1)] if several else corpora.struct(0)
    (sample,) = read(tmp_path, {"problem": "q", "answer": "2", name: cell})
    shown = [picture.tobytes() for picture in sample.images]
    assert shown == [corpora.picture(i).tobytes() for i in range(2 if several else 1)]


def test_the_plural_name_is_preferred_and_both_are_said(tmp_path: Path) -> None:
    source = read(tmp_path, {**ROW, "images": [corpora.struct(1)], "image": corpora.struct(0)})
    assert source.report.columns == {"images": "images", "question": "problem", "answer": "answer"}
    assert source[0].images[0].tobytes() == corpora.picture(1).tobytes()


# Trap 2: forms of a cell

FORMS = {
    "struct with bytes": [corpora.struct(0)],
    "struct with path": [{"bytes": None, "path": "a/0.png"}],
    "raw bytes": [corpora.encoded(0)],
    "path": ["a/0.png"],
    "path under the root": ["a/../a/0.png"],
    "base64": [corpora.based(0)],
    "data address": [f"data:image/png;base64,{corpora.based(0)}"],
}


@pytest.mark.parametrize("cells", FORMS.values(), ids=FORMS)
def test_every_form_of_a_cell(tmp_path: Path, cells: list[Any]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.png").write_bytes(corpora.encoded(0))
    (sample,) = read(tmp_path, {**ROW, "images": cells})
    assert sample.images[0].tobytes() == corpora.picture(0).tobytes()


BAD_CELLS = {
    "null": ([None], "image path must be a non-empty string"),
    "empty struct": ([{"bytes": None, "path": None}], "image path must be a non-empty string"),
    "no bytes": ([{"bytes": b"", "path": None}], "is empty"),
    "no such file": (["b.png"], "image b.png does not exist"),
    "out of the root": (["../out.png"], "lies outside the data folder"),
    "a file of the system": (["/etc/passwd"], "lies outside the data folder"),
    "out in a struct": ([{"bytes": None, "path": "../out.png"}], "lies outside the data folder"),
    "page instead of a picture": ([b"<html>404</html>"], "it begins with"),
    "half a PNG": ([corpora.encoded(0)[:200]], "cannot be read"),
    "half a JPEG": ([corpora.encoded(0, "JPEG")[:600]], "cannot be read"),
}


@pytest.mark.parametrize(("cells", "words"), BAD_CELLS.values(), ids=BAD_CELLS)
def test_a_bad_cell_is_refused_when_the_source_is_built(tmp_path: Path, cells: list[Any], words: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "out.png").write_bytes(corpora.encoded(0))
    assert words in refused(tmp_path / "root", {**ROW, "images": cells})


def test_a_root_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "0.png").write_bytes(corpora.encoded(0))
    row = {**ROW, "images": ["0.png"]}
    assert len(read(tmp_path, row, root=tmp_path / "pictures")[0].images) == 1
    assert "does not exist" in refused(tmp_path, row)


def test_a_picture_that_changed_since_is_a_bad_row(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(corpora.encoded(0))
    source = read(tmp_path, {**ROW, "images": ["0.png"]})
    (tmp_path / "0.png").write_bytes(corpora.encoded(0)[:100])
    with pytest.raises(BadRow, match=r"image 0\.png cannot be read"):
        source[0]


# Traps 3 and 4: markers, text-only rows


@pytest.mark.parametrize(
    ("question", "count", "asked"),
    [
        ("How many?", 2, "How many?"),
        ("<image>How many?", 1, "How many?"),
        ("<image>\n<image>How many?", 2, "How many?"),
        ("Is <image> like <image>?", 2, "Is <image> like <image>?"),
        ("<image>Is it like <image>?", 2, "<image>Is it like <image>?"),
        ("How many?", 0, "How many?"),
    ],
)
def test_as_many_markers_as_pictures_or_none(tmp_path: Path, question: str, count: int, asked: str) -> None:
    (sample,) = read(tmp_path, {**ROW, "problem": question, "images": [corpora.struct(i) for i in range(count)]})
    assert (sample.question, len(sample.images)) == (asked, count)


def test_numbered_markers_bring_the_pictures_into_their_order(tmp_path: Path) -> None:
    row = {**ROW, "problem": "Is <image 2> like <image 1>?", "images": [corpora.struct(0), corpora.struct(1)]}
    (sample,) = read(tmp_path, row)
    assert sample.question == "Is <image> like <image>?"
    assert [p.tobytes() for p in sample.images] == [corpora.picture(i).tobytes() for i in (1, 0)]


@pytest.mark.parametrize(
    ("question", "count"),
    [("<image>", 0), ("<image><image>q", 1), ("<image>q", 2), ("what is the <image> tag?", 0), ("<image 3>q", 2)],
)
def test_another_number_of_markers_is_refused(tmp_path: Path, question: str, count: int) -> None:
    message = refused(tmp_path, {**ROW, "problem": question, "images": [corpora.struct(i) for i in range(count)]})
    assert f"there are {count} images" in message


def test_a_row_without_a_picture_gives_the_processor_none(tmp_path: Path, processor: Any) -> None:
    rows = [{**ROW, "images": None}, {**ROW, "images": []}, {**ROW, "images": [corpora.struct(0)]}]
    data = DataModule(read(tmp_path, *rows), {}, Template("", ".*"), 3, 3, seed=0)
    data.connect(processor)
    (prompts,) = [batch for batch, _ in zip(data.train_dataloader(), range(1), strict=False)]
    assert sorted(len(s.images) for s in prompts.samples) == [0, 0, 1]
    assert [p is None for p in prompts.pixels] == [not s.images for s in prompts.samples]


# Traps 5 to 8: golds, kinds, choices, pass rates


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("\\boxed{7}", "7"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("\\boxed{\\{1, 2\\}}", "\\{1, 2\\}"),
        ("\\boxed{\\boxed{7}}", "\\boxed{7}"),
        ("$\\boxed{17^\\circ}$", "17^\\circ"),
        ("The answer is \\boxed{7}.", "7"),
        (" 7 ", "7"),
        (7, "7"),
        (0.5, "0.5"),
        (True, "yes"),
    ],
)
def test_one_box_is_taken_off_and_the_raw_gold_kept(tmp_path: Path, answer: object, gold: str) -> None:
    (sample,) = read(tmp_path, {**ROW, "answer": answer})
    assert sample.answer == gold
    assert sample.meta["gold"] == {True: "yes"}.get(answer is True, str(answer).strip())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("\\boxed{7", "is empty or not closed"),
        ("\\boxed{}", "is empty or not closed"),
        ("\\boxed{3} or \\boxed{7}", "has several boxes"),
        ("None", "nothing can be compared with"),
        ("\\boxed{None}", "nothing can be compared with"),
        ("nan", "nothing can be compared with"),
        ("\\frac{1}{", "nothing can be compared with"),
        ("", "answer is missing or empty"),
        (None, "answer is missing or empty"),
        (float("nan"), "answer is missing or empty"),
        ("2<|im_end|>", "control token <|im_end|>"),
    ],
)
def test_a_gold_that_is_none_is_a_bad_row(tmp_path: Path, answer: object, words: str) -> None:
    assert words in refused(tmp_path, {**ROW, "answer": answer})
    assert len(read(tmp_path, {**ROW, "answer": answer}, on_bad_row="skip")) == 0


def test_kinds_of_golds_are_counted(tmp_path: Path) -> None:
    golds = ["7", "17^\\circ", "50%", "−3", "A", "no", "x^2+1", "(0,1)", "two red cars", "None"]
    rows = [{**ROW, "answer": gold, "id": i} for i, gold in enumerate(golds)]
    report = read(tmp_path, *rows, on_bad_row="skip").report
    assert report.kinds["number"] == 4 and report.kinds["letter"] == 1 and report.kinds["yes_no"] == 1
    assert report.kinds.total() == report.kept == 9 and report.dropped == {"gold_unparsable": 1}


def test_choices_and_the_letter_of_the_right_one(tmp_path: Path) -> None:
    """Geometry3K: ``answer`` is the text of a choice, ``ground_truth`` its letter."""
    row = {**ROW, "answer": "12", "choices": ["6", "12", "two\nlines", "24"], "ground_truth": "B"}
    (sample,) = read(tmp_path, row)
    assert (sample.answer, sample.meta["letter"]) == ("12", "B")
    assert sample.meta["choices"].split("\n") == ["6", "12", "two lines", "24"]


def test_ground_truth_is_the_answer_where_there_is_no_other(tmp_path: Path) -> None:
    source = read(tmp_path, {"problem": "q", "ground_truth": "12", "images": []})
    assert source[0].answer == "12" and source.report.columns["answer"] == "ground_truth"
    assert "letter" not in source[0].meta


@pytest.mark.parametrize(("value", "told"), [(0.25, "0.25"), (0.0, "0"), (1.0, "1"), (None, None), (-1.0, None),
                                              (float("nan"), None), (25.0, None)])  # fmt: skip
def test_a_pass_rate_that_was_not_measured_is_absent(tmp_path: Path, value: float | None, told: str | None) -> None:
    schema = pa.schema(
        [("problem", pa.string()), ("answer", pa.string()), ("images", pa.list_(pa.string())),
         ("pass_rate", pa.float64())]
    )  # fmt: skip
    (sample,) = read(tmp_path, {**ROW, "pass_rate": value}, schema=schema)
    assert sample.meta.get("pass_rate") == told


# Trap 9: ids


def test_repeated_ids(tmp_path: Path) -> None:
    """The same row twice is left out; another question keeps its id, completed; another picture is another row."""
    first = {**ROW, "id": "7", "images": [corpora.struct(0)]}
    rows = [first, first, {**first, "problem": "other?"}, {**first, "images": [corpora.struct(1)]}]
    source = read(tmp_path, *rows)
    assert [s.id for s in source] == ["7", "7@2", "7@3"]
    assert source.report.dropped == {"duplicate_row": 1} and source.report.read == 4


def test_rows_without_an_id_are_named_by_their_place(tmp_path: Path) -> None:
    assert [s.id for s in read(tmp_path, ROW, ROW)] == ["rows.parquet:0", "rows.parquet:1"]


# Traps 10 and 11: types, lengths


@pytest.mark.parametrize("large", [False, True])
def test_large_types_and_small_ones(tmp_path: Path, large: bool) -> None:
    text, data, many = (
        (pa.large_string(), pa.large_binary(), pa.large_list) if large else (pa.string(), pa.binary(), pa.list_)
    )
    images = many(pa.struct([("bytes", data), ("path", text)]))
    schema = pa.schema([("problem", text), ("answer", text), ("images", images)])
    (sample,) = read(tmp_path, {**ROW, "images": [corpora.struct(0)]}, schema=schema)
    assert sample.images[0].tobytes() == corpora.picture(0).tobytes()


def test_an_outline_has_question_and_sizes(tmp_path: Path) -> None:
    outline = read(tmp_path, {**ROW, "id": 3, "images": [corpora.struct(0)] * 2}).outline(0)
    assert (outline.id, outline.question) == ("3", "How many?")
    assert outline.sizes == ((corpora.WIDTH, corpora.HEIGHT),) * 2


# Columns, parts, and the gate


def test_no_column_fits(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, {"text": "q", "label": "2"})
    assert str(caught.value) == (
        f"{tmp_path}/rows.parquet: no column for the question; known names are problem, question, prompt; "
        "found are text, label"
    )


def test_pictures_under_an_unknown_name_do_not_become_text_only_rows(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no column for the images; known names are images, image; found are .*photo"):
        read(tmp_path, {"problem": "q", "answer": "2", "photo": corpora.struct(0)})


def test_the_columns_that_were_found_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        read(tmp_path, {"question": "q", "answer": "2", "image": corpora.struct(0)})
    assert "images = image, question = question, answer = answer" in caplog.text


def test_bad_rows_are_counted_with_examples(tmp_path: Path) -> None:
    rows = [{**ROW, "id": 0}, {**ROW, "answer": "", "id": 1}, {**ROW, "problem": "<image>q", "id": 2}]
    report = read(tmp_path, *rows, on_bad_row="skip").report
    assert (report.read, report.kept, report.dropped) == (3, 1, {"missing_field": 1, "placeholder_count": 1})
    assert report.examples["missing_field"] == ["1: answer is missing or empty"]


def test_parts_follow_the_id_alone(tmp_path: Path) -> None:
    rows = [{**ROW, "id": i} for i in range(60)]
    parts = {part: {s.id for s in read(tmp_path, *rows, part=part, val_share=0.3)} for part in ("train", "val", "all")}
    assert parts["train"] | parts["val"] == parts["all"] and not parts["train"] & parts["val"]
    assert 8 <= len(parts["val"]) <= 28
    backwards = read(tmp_path, *reversed(rows), part="val", val_share=0.3)
    assert {s.id for s in backwards} == parts["val"]
    assert len(read(tmp_path, *rows, part="val")) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"part": "test"}, "data part 'test' must be one of train, val, all"),
        ({"val_share": 1.5}, "data.val_share=1.5 must lie in 0..1"),
        ({"on_bad_row": "drop"}, "data.on_bad_row='drop' must be raise or skip"),
    ],
)
def test_unknown_settings(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read(tmp_path, ROW, **options)


def test_json_rows_with_base64(tmp_path: Path) -> None:
    rows = [
        {"problem": "q", "answer": str(i), "images": [base64.b64encode(corpora.encoded(i)).decode()]} for i in (0, 1)
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert [s.images[0].size for s in EasyR1(tmp_path / "rows.jsonl")] == [(corpora.WIDTH, corpora.HEIGHT)] * 2
