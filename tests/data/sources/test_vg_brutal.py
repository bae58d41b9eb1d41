"""The reference release of Evidence-RL: families, parts, traps, boxes; the paper's counts on the file itself."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.data import corpora

from mmcredit.data.sources.vg_brutal import Lines, VgBrutal, clipped, family_of, fraction, numbers, present, written
from mmcredit.types import Box, UserError

WHOLE = {"val_share": 0.0, "probe_share": 0.0}


def row(**changes: Any) -> dict[str, Any]:
    return {**corpora.vg_brutal_rows([1])[0], **changes}


def read(folder: Path, *rows: Any, **options: Any) -> VgBrutal:
    return VgBrutal(corpora.vg_brutal(folder, rows or None), **{**WHOLE, **options})


def test_families_and_negative_rows_by_default(tmp_path: Path) -> None:
    """Of 16 rows a picture: the bait family (2) and the trap row of each pair of the others (7) are left out."""
    source = read(tmp_path)
    assert Counter(source.bare(i).family for i in range(len(source))) == {"counting": 3, "spatial": 9, "attribute": 9}
    assert source.report.dropped == {"family": 6, "negative_row": 21}
    assert (source.report.read, source.report.kept) == (48, 21)
    assert all(source.bare(i).answer == "seven" for i in range(len(source)))


def test_every_row_of_the_families_as_the_paper_counts(tmp_path: Path) -> None:
    """2 counting, 6 spatial and 6 attribute rows a picture: 1 : 3 : 3, as 2,188 : 6,564 : 6,562."""
    source = read(tmp_path, negative_rows="train")
    assert Counter(source.bare(i).family for i in range(len(source))) == {"counting": 6, "spatial": 18, "attribute": 18}
    assert source.report.dropped == {"family": 6}
    assert Counter(source.bare(i).meta["gt_present"] for i in range(len(source))) == {"yes": 21, "no": 21}


def test_trap_rows_for_probing_only(tmp_path: Path) -> None:
    parts = {part: read(tmp_path / part, negative_rows="probe", part=part) for part in ("train", "probe", "all")}
    traps = {part: Counter(s.bare(i).meta["gt_present"] for i in range(len(s))) for part, s in parts.items()}
    assert traps == {"train": {"yes": 21}, "probe": {"no": 21}, "all": {"yes": 21, "no": 21}}


def test_a_gold_that_nothing_equals_is_left_out_but_for_the_papers_rows(tmp_path: Path) -> None:
    rows = [row(), row(pair_id="b", answer="N/A")]
    source = read(tmp_path / "drop", *rows, on_bad_row="skip")
    assert len(source) == 1 and source.report.dropped == {"gold_unparsable": 1}
    assert len(read(tmp_path / "train", *rows, negative_rows="train")) == 2


def test_a_family_may_be_chosen(tmp_path: Path) -> None:
    source = read(tmp_path, families=["other"])
    assert len(source) == 3 and source.bare(0).meta["task_type"] == "cooccur_bait"


def test_parts_split_pictures_by_md5(tmp_path: Path) -> None:
    images = range(1, 41)
    expected = {}
    for image in images:
        place = int(hashlib.md5(str(image).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
        expected[image] = "train" if place < 0.8 else "val" if place < 0.9 else "probe"
    assert set(expected.values()) == {"train", "val", "probe"}
    rows = [row(image_id=image, image_file=f"{image}.jpg", image_path=f"VG_100K/{image}.jpg") for image in images]
    path = corpora.vg_brutal(tmp_path, rows)
    for part in ("train", "val", "probe"):
        source = VgBrutal(path, part=part)
        found = {int(source.bare(i).id.partition(":")[0]) for i in range(len(source))}
        assert found == {image for image, its in expected.items() if its == part}


def test_fraction_is_the_published_one() -> None:
    assert fraction(1) == int("c4ca4238", 16) / 0xFFFFFFFF  # md5("1") = c4ca4238a0b923820dcc509a6f75849b


def test_ids_name_picture_pair_and_row(tmp_path: Path) -> None:
    source = read(tmp_path, negative_rows="train")
    names = [source.bare(i).id for i in range(len(source))]
    assert len(set(names)) == len(names)
    assert names[:2] == ["1:attr_conjunction_1", "1:attr_conjunction_1:trap"] and "102:occlusion_1" in names


def test_a_picture_that_was_annotated_twice_counts_twice(tmp_path: Path) -> None:
    source = read(tmp_path, row(), row(), row(question="another?"))
    assert [s.id for s in source] == ["1:attr_conjunction_1", "1:attr_conjunction_1@1", "1:attr_conjunction_1@2"]


@pytest.mark.parametrize(
    ("bbox", "text"),
    [([8, 0, 20, 30], "[x=8, y=0, w=20, h=30]"), ([8.26, 0, 20.0, 30], "[x=8.3, y=0, w=20, h=30]")],
)
def test_the_place_holder_of_the_box_is_filled(tmp_path: Path, bbox: list[float], text: str) -> None:
    (sample,) = read(tmp_path, row(bbox=bbox))
    assert sample.question == f"What is the digit at {text}?"
    assert written(numbers(bbox, "bbox")) == text


def test_boxes_by_priority_clipped_to_the_picture(tmp_path: Path) -> None:
    given = row(bbox=[40, 10, 100, 100], target_bbox=[-5, -5, 20, 10], proposal_bbox=[1, 2, 3, 4])
    (sample,) = read(tmp_path, given)
    assert (sample.proposal_bbox, sample.target_bbox) == (Box(1, 2, 3, 4), Box(0, 0, 20, 10))
    assert sample.bbox == Box(40, 10, corpora.WIDTH - 40, corpora.HEIGHT - 10)
    assert sample.boxes == (sample.proposal_bbox,)


@pytest.mark.parametrize("bbox", [[1, 2, 0, 4], [1, 2, 3, -4], [100, 2, 3, 4], [1, 40, 3, 4]])
def test_a_box_without_area_is_none(tmp_path: Path, bbox: list[float]) -> None:
    """The evidence is then looked for in the centre, as in the release."""
    (sample,) = read(tmp_path, row(bbox=bbox))
    assert sample.bbox is None and sample.boxes == ()
    assert clipped(numbers(bbox, "bbox"), (corpora.WIDTH, corpora.HEIGHT)) is None


BAD = {
    "three numbers": (row(bbox=[1, 2, 3]), "bbox must be four numbers"),
    "no numbers": (row(bbox="here"), "bbox must be four numbers"),
    "null": (row(bbox=None), "the row has no bbox"),
    "word in a box": (row(bbox=[1, 2, 3, "x"]), "bbox must be four numbers"),
    "no answer": (row(answer=" "), "answer is missing or empty"),
    "no question": (row(question=""), "question is missing or empty"),
    "no such picture": (row(image_file="7.jpg", image_path="VG_100K/7.jpg"), "image VG_100K/7.jpg does not exist"),
    "outside": (row(image_file="../../x.jpg", image_path="../../x.jpg"), "lies outside the data folder"),
    "broken line": ('{"pair_id": ', "not valid JSON"),
}


@pytest.mark.parametrize(("bad", "words"), BAD.values(), ids=BAD)
def test_bad_rows(tmp_path: Path, bad: Any, words: str) -> None:
    with pytest.raises(UserError, match=r"vg_brutal_pairs\.jsonl:1: ") as caught:
        read(tmp_path / "raise", row(), bad)
    assert words in str(caught.value)
    assert len(read(tmp_path / "skip", row(), bad, on_bad_row="skip")) == 1


def test_numbers_may_be_text_as_in_the_release(tmp_path: Path) -> None:
    (sample,) = read(tmp_path, row(bbox=["1", 2, 3, 4]))
    assert sample.bbox == Box(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("task", "question", "family"),
    [
        ("count_exclusion", "Describe it", "counting"),
        ("multihop_cross", "", "spatial"),
        ("cooccur_bait", "How many?", "other"),
        ("fine_grained_v2", "", "attribute"),
        ("relation", "", "spatial"),
        ("object_existence", "", "presence"),
        ("mystery", "How many?", "other"),
        ("", "How many cups?", "counting"),
        ("", "Is there a cup?", "presence"),
        ("", "What is  behind the cup?", "spatial"),
        ("", "What color is the cup?", "attribute"),
        ("", "Island or sea?", "other"),
    ],
)
def test_the_label_decides_then_the_beginning_of_the_question(task: str, question: str, family: str) -> None:
    assert family_of(task, question) == family


@pytest.mark.parametrize(
    ("value", "is_present"),
    [(True, True), (False, False), ("false", False), ("No", False), (0, False), (1, True), (None, True)],
)
def test_present(value: object, is_present: bool) -> None:
    assert present(value) is is_present


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"negative_rows": "keep"}, "data.negative_rows 'keep' must be one of drop, probe, train"),
        ({"val_share": 0.6, "probe_share": 0.6}, "must lie in 0..1 together"),
        ({"part": "test"}, "must be one of train, val, probe, all"),
    ],
)
def test_unknown_settings(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        read(tmp_path, **options)


@pytest.mark.skipif("MMCREDIT_VG_BRUTAL" not in os.environ, reason="needs the released vg_brutal_pairs.jsonl")
def test_the_counts_of_the_paper() -> None:
    """Evidence-RL, A.1, by the rows alone; the pictures need not be there."""
    rows = Lines(Path(os.environ["MMCREDIT_VG_BRUTAL"]))
    assert len(rows) == 21_758
    families = Counter(family_of(r["task_type"], r["question"]) for r in rows if fraction(r["image_id"]) < 0.8)
    assert families == {"counting": 2_188, "spatial": 6_564, "attribute": 6_562, "other": 2_188}
    places = Counter(
        "train" if f < 0.8 else "val" if f < 0.9 else "probe" for f in (fraction(r["image_id"]) for r in rows)
    )
    assert places == {"train": 17_502, "val": 2_352, "probe": 1_904}
