"""A user's own JSON-lines file: what is read, what is refused and how that is said."""

from __future__ import annotations

import base64
import json
import logging
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from real_files import BAD, rotated

from mmcredit.data.gate import Outline
from mmcredit.data.source import Info
from mmcredit.data.sources.jsonl import Jsonl
from mmcredit.types import Box, UserError

ROW = {"question": "how many?", "answer": "2"}


def png(size: tuple[int, int] = (64, 48), color: str = "red") -> bytes:
    data = BytesIO()
    Image.new("RGB", size, color).save(data, "PNG")
    return data.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """``root`` with two pictures, and a picture and a file of secrets outside it."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.png").write_bytes(png())
    (root / "sub" / "b.png").write_bytes(png((10, 20), "blue"))
    (tmp_path / "outside.png").write_bytes(png())
    return root


def write(folder: Path, *rows: dict[str, Any] | str | bytes) -> Path:
    lines = [
        row if isinstance(row, bytes) else row.encode() if isinstance(row, str) else json.dumps(row).encode()
        for row in rows
    ]
    path = folder / "rows.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def refused(folder: Path, row: dict[str, Any] | str | bytes, **options: Any) -> str:
    """The message about a bad second row."""
    with pytest.raises(UserError) as error:
        Jsonl(write(folder, ROW, row), **options)
    message = str(error.value)
    assert message.startswith(f"{folder / 'rows.jsonl'}:2: ")
    assert "\n" not in message and len(message) < 600
    return message


def test_picture_is_found_relative_to_the_file(folder: Path) -> None:
    (sample,) = Jsonl(write(folder, {**ROW, "image": "sub/b.png", "family": "counting", "id": 7}))
    assert (sample.id, sample.question, sample.answer, sample.family) == ("7", "how many?", "2", "counting")
    assert [(p.mode, p.size, p.getpixel((0, 0))) for p in sample.images] == [("RGB", (10, 20), (0, 0, 255))]


def test_several_pictures_keep_their_order(folder: Path) -> None:
    (sample,) = Jsonl(write(folder, {**ROW, "images": ["sub/b.png", "a.png"]}))
    assert [p.size for p in sample.images] == [(10, 20), (64, 48)]


@pytest.mark.parametrize("empty", [None, []])
def test_empty_list_of_pictures_does_not_hide_the_picture(folder: Path, empty: object) -> None:
    (sample,) = Jsonl(write(folder, {**ROW, "images": empty, "image": "a.png"}))
    assert len(sample.images) == 1


def test_text_only_row(folder: Path) -> None:
    (sample,) = Jsonl(write(folder, {"problem": "1+1?", "answer": 2}))
    assert (sample.images, sample.question, sample.answer, sample.boxes) == ((), "1+1?", "2", ())
    assert sample.proposal_bbox is None
    assert sample.id == "rows.jsonl:1"


@pytest.mark.parametrize(
    ("answer", "text"), [(2, "2"), (0, "0"), (0.5, "0.5"), (True, "yes"), (False, "no"), (" a b ", "a b")]
)
def test_answers_become_text(folder: Path, answer: object, text: str) -> None:
    (sample,) = Jsonl(write(folder, {"question": "q", "answer": answer}))
    assert sample.answer == text


def test_boxes(folder: Path) -> None:
    row = {**ROW, "image": "a.png", "boxes": [[1, 2, 3, 4], [5.5, 6, 7, 8]], "target_bbox": [0, 0, 64, 48]}
    (sample,) = Jsonl(write(folder, row))
    assert sample.boxes == (Box(1, 2, 3, 4), Box(5.5, 6, 7, 8))
    assert sample.proposal_bbox == Box(1, 2, 3, 4)
    assert (sample.target_bbox, sample.bbox) == (Box(0, 0, 64, 48), None)


def test_given_proposal_is_kept(folder: Path) -> None:
    row = {**ROW, "image": "a.png", "boxes": [[1, 2, 3, 4]], "proposal_bbox": [9, 9, 2, 2], "bbox": [1, 1, 1, 1]}
    (sample,) = Jsonl(write(folder, row))
    assert (sample.proposal_bbox, sample.bbox) == (Box(9, 9, 2, 2), Box(1, 1, 1, 1))


@pytest.mark.parametrize("box", [[0, 0, 64, 48], [63, 47, 1, 1], [60, 40, 5, 9], [0, 0, 0.25, 0.25]])
def test_box_may_touch_the_border(folder: Path, box: list[float]) -> None:
    """An end one pixel past the border is an inclusive corner, as some annotations count."""
    (sample,) = Jsonl(write(folder, {**ROW, "image": "a.png", "bbox": box}))
    assert sample.bbox == Box(*box)


BAD_ROWS = {
    "image under another name": (
        {**ROW, "image_path": "a.png"},
        "image_path names a picture; the field must be called",
    ),
    "images under another name": ({**ROW, "image_1": ["a.png"]}, "image_1 names a picture"),
    "broken json": ('{"question": ', "not valid JSON"),
    "no object": ("[1, 2]", "a JSON object is needed, this is a list"),
    "nested too deep": ("[" * 100_000, "not valid JSON"),
    "not a number": ('{"question": "q", "answer": NaN}', "not valid JSON"),
    "infinite": ('{"question": "q", "answer": 1e999}', "not valid JSON"),
    "endless number": ('{"question": "q", "answer": ' + "9" * 5000 + "}", "not valid JSON"),
    "lone surrogate": (r'{"question": "\ud800", "answer": "a"}', "not valid JSON"),
    "not utf-8": (b'{"question": "\xff", "answer": "a"}', "not valid JSON"),
    "no question": ({"answer": "2"}, "question is missing or empty"),
    "empty question": ({"question": " ", "answer": "2"}, "question is missing or empty"),
    "vision token": ({"question": "a <|image_pad|> b", "answer": "2"}, "holds the control token <|image_pad|>"),
    "end token": ({"question": "q", "answer": "2<|im_end|>"}, "holds the control token <|im_end|>"),
    "no answer": ({"question": "q"}, "answer is missing or empty"),
    "null answer": ({"question": "q", "answer": None}, "answer is missing or empty"),
    "list answer": ({"question": "q", "answer": ["2"]}, "answer is missing or empty"),
    "no such image": ({**ROW, "image": "c.png"}, "image c.png does not exist"),
    "folder as image": ({**ROW, "image": "sub"}, "image sub does not exist"),
    "empty image": ({**ROW, "image": ""}, "must be a non-empty string, this is ''"),
    "empty images": ({**ROW, "images": ""}, "must be a non-empty string, this is ''"),
    "number as image": ({**ROW, "images": ["a.png", 3]}, "must be a non-empty string, this is 3"),
    "null character": ({**ROW, "image": "a\0.png"}, "no usable path"),
    "endless name": ({**ROW, "image": "a" * 5000}, "no usable path"),
    "parent folder": ({**ROW, "image": "../outside.png"}, "image ../outside.png lies outside the data folder"),
    "hidden parent": ({**ROW, "image": "sub/../../outside.png"}, "lies outside the data folder"),
    "system file": ({**ROW, "image": "/etc/passwd"}, "lies outside the data folder"),
    "second image outside": ({**ROW, "images": ["a.png", "../outside.png"]}, "lies outside the data folder"),
    "box without image": ({**ROW, "boxes": [[1, 1, 2, 2]]}, "boxes is given but there is no image"),
    "single box without image": ({**ROW, "bbox": [1, 1, 2, 2]}, "bbox is given but there is no image"),
    "flat boxes": ({**ROW, "image": "a.png", "boxes": [1, 1, 2, 2]}, "boxes must be four numbers"),
    "number as boxes": ({**ROW, "image": "a.png", "boxes": 5}, "boxes must be four numbers"),
    "object as boxes": ({**ROW, "image": "a.png", "boxes": {"x": 1}}, "boxes must be four numbers"),
    "three numbers": ({**ROW, "image": "a.png", "bbox": [1, 1, 2]}, "bbox must be four numbers"),
    "text in box": ({**ROW, "image": "a.png", "bbox": [1, 1, 2, "2"]}, "bbox must be four numbers"),
    "boolean in box": ({**ROW, "image": "a.png", "bbox": [1, 1, 2, True]}, "bbox must be four numbers"),
    "no width": ({**ROW, "image": "a.png", "bbox": [1, 1, 0, 2]}, "needs x, y >= 0 and w, h > 0"),
    "negative corner": ({**ROW, "image": "a.png", "bbox": [-1, 1, 2, 2]}, "needs x, y >= 0 and w, h > 0"),
    "too far right": ({**ROW, "image": "a.png", "bbox": [60, 1, 5.1, 2]}, "outside the image of 64x48 pixels"),
    "too far down": ({**ROW, "image": "a.png", "boxes": [[1, 1, 2, 2], [1, 48, 1, 2]]}, "outside the image of 64x48"),
    "endless box": (json.dumps({**ROW, "image": "a.png", "bbox": [0, 0, 10**400, 1]}), "outside the image of 64x48"),
}


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_row_is_named_with_line_and_reason(folder: Path, row: dict | str | bytes, reason: str) -> None:
    assert reason in refused(folder, row)


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_row_can_be_skipped(folder: Path, row: dict | str | bytes, reason: str) -> None:
    source = Jsonl(write(folder, ROW, row, {**ROW, "question": "last"}), on_bad_row="skip")
    assert [sample.question for sample in source] == ["how many?", "last"]
    assert source.report.dropped.total() == 1
    assert reason in next(iter(source.report.examples.values()))[0]


def test_skipped_rows_are_counted_by_reason_and_reported(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(folder, "{", {"question": "q"}, {"question": "r"}, ROW)
    with caplog.at_level(logging.WARNING):
        source = Jsonl(path, on_bad_row="skip")
    assert source.report.dropped == {"json": 1, "missing_field": 2}
    assert (source.report.read, source.report.kept) == (4, 1)
    assert f"{path}:2 skipped: answer is missing or empty" in caplog.text
    assert "1 rows kept, 3 skipped" in caplog.text


def test_absolute_path_inside_the_root(folder: Path) -> None:
    (sample,) = Jsonl(write(folder, {**ROW, "image": str(folder / "a.png")}))
    assert sample.images[0].size == (64, 48)


def test_absolute_path_outside_the_root(folder: Path) -> None:
    outside = folder.parent / "outside.png"
    assert "lies outside the data folder" in refused(folder, {**ROW, "image": str(outside)})


def test_neighbour_that_shares_the_name_is_outside(folder: Path) -> None:
    other = folder.with_name("root2")
    other.mkdir()
    (other / "a.png").write_bytes(png())
    assert "lies outside the data folder" in refused(folder, {**ROW, "image": "../root2/a.png"})


@pytest.mark.parametrize("through_folder", [False, True])
def test_symlink_out_of_the_root(folder: Path, through_folder: bool) -> None:
    if through_folder:
        (folder / "way").symlink_to(folder.parent)
        name = "way/outside.png"
    else:
        (folder / "link.png").symlink_to(folder.parent / "outside.png")
        name = "link.png"
    assert "lies outside the data folder" in refused(folder, {**ROW, "image": name})


def test_symlink_inside_the_root(folder: Path) -> None:
    (folder / "link.png").symlink_to(folder / "a.png")
    (sample,) = Jsonl(write(folder, {**ROW, "image": "link.png"}))
    assert sample.images[0].size == (64, 48)


def test_loop_of_symlinks(folder: Path) -> None:
    (folder / "loop.png").symlink_to(folder / "loop.png")
    assert "image" in refused(folder, {**ROW, "image": "loop.png"})


def test_wider_root(folder: Path) -> None:
    path = write(folder, {**ROW, "image": "../outside.png"})
    assert len(Jsonl(path, root=folder.parent)) == 1


NO_PICTURES = {
    "empty": b"",
    "text": b"<html>404 not found</html>",
    "truncated header": png()[:20],
    "truncated pixels": png((300, 300))[:120],
    "damaged bitmap": b"BM" + bytes(60),
}


@pytest.mark.parametrize("content", NO_PICTURES.values(), ids=NO_PICTURES)
def test_unreadable_picture(folder: Path, content: bytes) -> None:
    (folder / "bad.png").write_bytes(content)
    assert "image bad.png cannot be read" in refused(folder, {**ROW, "images": ["a.png", "bad.png"]})


def test_picture_longer_than_the_processors_allow(folder: Path) -> None:
    (folder / "long.png").write_bytes(png((1, 300)))
    assert "image long.png of 1x300 pixels is longer than 200:1" in refused(folder, {**ROW, "image": "long.png"})


def saved(folder: Path, picture: Image.Image, name: str, **options: Any) -> Image.Image:
    """The picture as the source reads it back."""
    picture.save(folder / name, **options)
    (sample,) = Jsonl(write(folder, {**ROW, "image": name}))
    return sample.images[0]


def test_picture_is_turned_upright(folder: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    assert saved(folder, Image.new("RGB", (24, 16)), "turned.jpg", exif=exif).size == (16, 24)


@pytest.mark.parametrize(("mode", "ink"), [("RGBA", (0, 0, 0, 255)), ("LA", (0, 255))])
def test_transparent_background_becomes_white(folder: Path, mode: str, ink: tuple[int, ...]) -> None:
    drawing = Image.new(mode, (8, 8), (0,) * len(ink))
    drawing.putpixel((3, 3), ink)
    read = saved(folder, drawing, "drawing.png")
    assert (read.getpixel((0, 0)), read.getpixel((3, 3))) == ((255, 255, 255), (0, 0, 0))


def test_sixteen_bit_grey_is_scaled(folder: Path) -> None:
    picture = Image.new("I;16", (4, 4), 65535)
    picture.putpixel((1, 1), 257 * 100)
    picture.putpixel((2, 2), 0)
    read = saved(folder, picture, "deep.png")
    assert [read.getpixel((i, i)) for i in range(3)] == [(255,) * 3, (100,) * 3, (0,) * 3]


def test_byte_order_mark_blank_lines_and_windows_line_ends(folder: Path) -> None:
    path = folder / "rows.jsonl"
    row = json.dumps(ROW)
    path.write_bytes(b"\xef\xbb\xbf" + f"{row}\r\n\r\n   \r\n{row}".encode())
    assert [sample.id for sample in Jsonl(path)] == ["rows.jsonl:1", "rows.jsonl:4"]


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_unicode_line_separators_do_not_end_a_row(folder: Path, mark: str) -> None:
    (sample,) = Jsonl(write(folder, json.dumps({**ROW, "question": f"a{mark}b"}, ensure_ascii=False)))
    assert sample.question == f"a{mark}b"


@pytest.mark.parametrize("second", [7, "7"])
def test_duplicate_id(folder: Path, second: object) -> None:
    path = write(folder, {**ROW, "id": 7}, {**ROW, "id": second})
    with pytest.raises(UserError, match=r"rows\.jsonl:2: id '7' is already used"):
        Jsonl(path)
    assert len(Jsonl(path, on_bad_row="skip")) == 1


def test_id_of_a_skipped_row_stays_free(folder: Path) -> None:
    path = write(folder, {"id": "x", "question": "no answer"}, {**ROW, "id": "x"})
    assert [sample.id for sample in Jsonl(path, on_bad_row="skip")] == ["x"]


def test_parts_share_the_rows_by_a_hash_of_the_id(folder: Path) -> None:
    ids = [f"row {i}" for i in range(400)]
    path = write(folder, *({**ROW, "id": i} for i in ids))
    train, val = ([s.id for s in Jsonl(path, part=part, val_share=0.25)] for part in ("train", "val"))
    assert set(train).isdisjoint(val) and sorted(train + val) == sorted(ids)
    assert abs(len(val) - 100) <= 4 * (400 * 0.25 * 0.75) ** 0.5
    write(folder, *({**ROW, "id": i} for i in reversed(ids)))
    assert {s.id for s in Jsonl(path, part="val", val_share=0.25)} == set(val)
    assert len(Jsonl(path, part="train")) == 400


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_bad_row": "ignore"}, ["on_bad_row='ignore'", "raise or skip"]),
        ({"part": "test"}, ["'test'", "train, val, all"]),
        ({"part": "val", "val_share": 1.5}, ["val_share=1.5", "0..1"]),
    ],
)
def test_unknown_options(folder: Path, options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        Jsonl(write(folder, ROW), **options)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(("name", "words"), [(None, "data.path is not set"), ("none.jsonl", "does not exist")])
def test_missing_file(folder: Path, name: str | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Jsonl(name and folder / name)


def test_folder_instead_of_a_file(folder: Path) -> None:
    with pytest.raises(UserError, match="not a file"):
        Jsonl(folder)


def test_what_judges_read_becomes_meta(folder: Path) -> None:
    notes = {"reference": "It is red.\nSo 2.", "pseudo_ground_truth": "two red cars", "key_facts": ["red cars", "two"]}
    one, bare = Jsonl(write(folder, ROW | notes, ROW | {"key_facts": []}))
    assert one.meta == notes | {"key_facts": "red cars\ntwo"} and bare.meta == {}
    assert "key_facts is missing or empty" in refused(folder, ROW | {"key_facts": ["red cars", ""]})
    assert "reference is missing or empty" in refused(folder, ROW | {"reference": {"text": "x"}})


# photographs on their side, placeholders, other forms of a picture, outlines


@pytest.mark.parametrize(
    ("exif", "size", "box"),
    [("both", (16, 24), Box(6, 2, 4, 8)), ("picture", (16, 24), Box(2, 6, 8, 4)), ("none", (24, 16), Box(2, 6, 8, 4))],
)
def test_boxes_follow_the_turn_of_the_photograph(folder: Path, exif: str, size: tuple[int, int], box: Box) -> None:
    """24x16 as stored, a quarter turn clockwise: x, y, w, h becomes 16 - y - h, x, h, w."""
    (folder / "turned.jpg").write_bytes(rotated())
    row = {**ROW, "image": "turned.jpg", "boxes": [[2, 6, 8, 4]], "bbox": [2, 6, 8, 4]}
    source = Jsonl(write(folder, row), exif=exif)
    (sample,) = source
    assert (sample.images[0].size, sample.boxes, sample.bbox) == (size, (box,), box)
    assert source.outline(0).sizes == (size,)


def test_boxes_are_checked_on_the_picture_they_belong_to(folder: Path) -> None:
    (folder / "turned.jpg").write_bytes(rotated())
    wide = {**ROW, "image": "turned.jpg", "bbox": [0, 0, 24, 16]}  # as stored
    assert len(Jsonl(write(folder, wide))) == len(Jsonl(write(folder, wide), exif="none")) == 1
    assert "outside the image of 16x24" in refused(folder, wide, exif="picture")


def test_unknown_treatment_of_exif(folder: Path) -> None:
    with pytest.raises(UserError, match="exif='yes' must be one of both, picture, none"):
        Jsonl(write(folder, ROW), exif="yes")


def test_pictures_come_in_the_order_of_the_question(folder: Path) -> None:
    row = {"question": "<image 2> or <image 1>?", "answer": "a", "images": ["a.png", "sub/b.png"]}
    source = Jsonl(write(folder, row))
    (sample,) = source
    assert (sample.question, [p.size for p in sample.images]) == ("<image>or <image>?", [(10, 20), (64, 48)])
    assert source.outline(0) == Outline(sample.id, sample.question, ((10, 20), (64, 48)), "a")
    assert "names another one first" in refused(folder, {**row, "boxes": [[1, 1, 2, 2]]})


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"image": "a.png", "question": "<image><image>?"}, "2 <image> placeholders but there are 1 images"),
        ({"question": "a literal <image>"}, "1 <image> placeholders but there are 0 images"),
        ({"images": ["a.png"] * 2, "question": "<image> and <image 2>"}, "both <image> and <image 1>"),
    ],
)
def test_placeholders_that_do_not_fit(folder: Path, row: dict[str, Any], words: str) -> None:
    assert words in refused(folder, {"answer": "a", **row})


def test_pictures_inside_the_file(folder: Path) -> None:
    text = base64.b64encode(png((30, 20))).decode()
    (sample,) = Jsonl(write(folder, {**ROW, "images": [text, f"data:image/png;base64,{text}", {"path": "a.png"}]}))
    assert [p.size for p in sample.images] == [(30, 20), (30, 20), (64, 48)]


@pytest.mark.parametrize(("data", "reason"), BAD.values(), ids=BAD)
def test_bad_pictures_are_dropped_under_their_reason(folder: Path, data: bytes, reason: str) -> None:
    (folder / "bad.jpg").write_bytes(data)
    source = Jsonl(write(folder, ROW, {**ROW, "image": "bad.jpg"}), on_bad_row="skip")
    assert len(source) == 1 and source.report.dropped == {reason: 1}
    assert "image bad.jpg" in refused(folder, {**ROW, "image": "bad.jpg"})


def test_report_says_which_fields_were_found(folder: Path) -> None:
    rows = [{"problem": "q", "answer": "a", "unknown": 1}, {"problem": "q", "answer": "a", "image": "a.png"}]
    assert Jsonl(write(folder, *rows)).report.columns == {"question": "problem", "answer": "answer", "images": "image"}


def test_samplers_learn_family_and_pass_rate_without_a_picture(folder: Path) -> None:
    source = Jsonl(
        write(folder, {**ROW, "image": "a.png", "family": "counting", "pass_rate": 0.25}, {**ROW, "question": "r"})
    )
    (folder / "a.png").unlink()
    assert [source.info(i) for i in range(2)] == [Info("counting", 0.25, boxed=False), Info(ROW.get("family", ""))]
