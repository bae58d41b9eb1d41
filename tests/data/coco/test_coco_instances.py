"""Malformed files and entries, odd boxes, crowds, and pictures that are not what the file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.data.coco.conftest import recipe

from mmcredit.data.coco.construct import Constructed, construct
from mmcredit.data.coco.instances import read
from mmcredit.types import Box, UserError

SQUARE = [[40, 40, 100, 40, 100, 100, 40, 100]]


def data(**changes: Any) -> dict[str, Any]:
    """One picture, 200x200, with a dog."""
    dog = {"id": 5, "image_id": 9, "category_id": 18, "bbox": [40, 40, 60, 60], "area": 3600, "iscrowd": 0}
    found: dict[str, Any] = {
        "images": [{"id": 9, "file_name": "a.png", "width": 200, "height": 200}],
        "annotations": [dog | {"segmentation": SQUARE}],
        "categories": [
            {"id": 18, "name": "dog", "supercategory": "animal"}, {"id": 17, "name": "cat", "supercategory": "animal"},
            {"id": 3, "name": "car", "supercategory": "vehicle"},
        ],
    }  # fmt: skip
    return found | changes


def dog(**changes: Any) -> dict[str, Any]:
    return data()["annotations"][0] | changes


def written(folder: Path, content: Any) -> Path:
    path = folder / "instances.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    Image.new("RGB", (200, 200), "grey").save(folder / "a.png")
    return path


def made(folder: Path, *annotations: Any, use: str = "count") -> Constructed:
    path = written(folder, data(annotations=list(annotations)))
    return construct(path, folder, recipe(f"questions.use=[{use}]"))


def texts(constructed: Constructed) -> list[tuple[str, str]]:
    return [(q.draft.question, q.draft.answer) for q in constructed.questions]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not valid JSON"),
        ("[1]", "needs the lists images, annotations and categories"),
        ({"images": [], "annotations": []}, "no categories"),
        (data(annotations=[]), "has no annotation of a picture that can be used"),
        (data(images=[]), "has no annotation of a picture that can be used"),
        (data(categories=[{"id": 1}]), "a category needs id and name"),
        (data(categories=[{"id": 1, "name": "dog"}, {"id": 2, "name": " Dog"}]), "category 2 (dog) is there twice"),
        (data(categories=[{"id": 1, "name": "dog"}, {"id": 1, "name": "cat"}]), "category 1 (cat) is there twice"),
        (data(categories=[{"id": 18, "name": "<|im_end|>"}]), "control token <|im_end|>"),
        ("[" * 10**5, "is not valid JSON"),
    ],
    ids=str,
)
def test_a_file_that_is_no_instances_file(content, words, tmp_path):
    with pytest.raises(UserError) as caught:
        read(written(tmp_path, content))
    assert words in str(caught.value) and "\n" not in str(caught.value)


BAD = {
    "no object": (7, "malformed"), "no id": ({"image_id": 9, "category_id": 18}, "missing_field"),
    "truth as id": (dog(id=True), "missing_field"), "same id": (dog(bbox=[1, 1, 2, 2]), "duplicate_id"),
    "unknown picture": (dog(id=6, image_id=10), "unknown_image"),
    "category by place": (dog(id=6, category_id=1), "unknown_category"),
    "no category": (dog(id=6, category_id=None), "missing_field"),
}  # fmt: skip


@pytest.mark.parametrize(("row", "reason"), BAD.values(), ids=BAD)
def test_a_malformed_entry_is_counted_or_stops(row, reason, tmp_path):
    path = written(tmp_path, data(annotations=[row, dog()]))
    found = read(path)
    assert found.reports[1].dropped == {reason: 1} and found.reports[1].kept == 1
    with pytest.raises(UserError, match=r"instances.json: annotations:\d: "):
        read(path, "raise")


@pytest.mark.parametrize(
    "change", [{"width": 0}, {"width": "200"}, {"height": 200.5}, {"file_name": None}, {"width": True}]
)
def test_a_malformed_picture_is_counted(change, tmp_path):
    images = [*data()["images"], {"id": 10, "file_name": "b.png", "width": 5, "height": 5} | change]
    report = read(written(tmp_path, data(images=images))).reports[0]
    assert report.kept == 1 and report.dropped.total() == 1


def test_of_two_with_one_id_the_same_stays_whatever_the_order(tmp_path):
    kept = []
    for rows in ([dog(), dog(bbox=[1, 1, 70, 70])], [dog(bbox=[1, 1, 70, 70]), dog()]):
        scene = next(read(written(tmp_path, data(annotations=rows))).scenes())
        kept.append([thing.box for thing in scene.things])
    assert kept[0] == kept[1] and len(kept[0]) == 1


@pytest.mark.parametrize(
    ("bbox", "box"),
    [
        ([-1, 40, 61, 60], Box(0, 40, 60, 60)),
        ([150, 150, 51, 51], Box(150, 150, 50, 50)),
        ([-0.5, -0.5, 201, 201], Box(0, 0, 200, 200)),
        ([10.25, 20.5, 60.5, 70], Box(10.25, 20.5, 60.5, 70)),
    ],
)
def test_boxes_are_clipped_to_the_picture(bbox, box, tmp_path):
    (thing,) = next(read(written(tmp_path, data(annotations=[dog(bbox=bbox)]))).scenes()).things
    assert thing.box == box and thing.fault is None


ODD = {
    "zero width": ([50, 50, 0, 60], "sub_pixel"), "sub-pixel": ([50, 50, 0.4, 60], "sub_pixel"),
    "outside": ([250, 50, 60, 60], "sub_pixel"), "below zero": ([50, 50, -60, 60], "sub_pixel"),
    "three numbers": ([50, 50, 60], "box_malformed"), "text": ([50, 50, 60, "60"], "box_malformed"),
    "none": (None, "box_malformed"), "nan": ([50, 50, float("nan"), 60], "box_malformed"),
    "huge": ([50, 50, 1e300, 60], "box_malformed"), "endless": ([50, 50, 10**400, 60], "box_malformed"),
    "infinite": ([50, 50, float("inf"), 60], "box_malformed"), "truth": ([50, 50, True, 60], "box_malformed"),
}  # fmt: skip


@pytest.mark.parametrize(("bbox", "reason"), ODD.values(), ids=ODD)
def test_what_cannot_be_pointed_at_still_counts(bbox, reason, tmp_path):
    """A second dog without a usable box: dogs cannot be counted, and "the dog" means nothing."""
    cat = dog(id=7, category_id=17, bbox=[130, 130, 60, 60])
    found = made(tmp_path, dog(), dog(id=6, bbox=bbox), cat)
    assert texts(found) == [("How many cats are in the image?", "1")]
    assert found.outcomes["count"] == {reason: 1, "kept": 1}
    with pytest.raises(UserError, match="gives no question"):
        made(tmp_path, dog(), dog(id=6, bbox=bbox), cat, use="relation")


@pytest.mark.parametrize("crowd", [1, True, 2, "1"])
def test_a_crowd_cannot_be_counted(crowd, tmp_path):
    region = {"counts": [200 * 200], "size": [200, 200]}
    cat = dog(id=7, category_id=17, bbox=[130, 130, 60, 60])
    found = made(tmp_path, dog(), dog(id=6, iscrowd=crowd, segmentation=region, bbox=[0, 0, 30, 30]), cat)
    assert texts(found) == [("How many cats are in the image?", "1")] and found.outcomes["count"]["crowd"] == 1


def test_near_duplicates_are_ambiguous(tmp_path):
    cat = dog(id=7, category_id=17, bbox=[130, 130, 60, 60])
    assert len(made(tmp_path, dog(), dog(id=6, bbox=[40, 41, 60, 60]), cat).questions) == 1
    assert len(made(tmp_path, dog(), dog(id=6, bbox=[40, 46, 60, 60]), cat).questions) == 2


def test_more_than_ten_are_not_asked_for(tmp_path):
    many = [dog(id=n, bbox=[2 + 48 * (n % 4), 2 + 48 * (n // 4), 40, 40]) for n in range(12)]
    assert texts(made(tmp_path, *many[:10])) == [("How many dogs are in the image?", "10")]
    with pytest.raises(UserError, match="count_range 1"):
        made(tmp_path, *many)


@pytest.mark.parametrize(
    ("bbox", "reason"),
    [
        ([40, 40, 14, 13], "small"),
        ([40, 40, 100, 20], "below_a_token"),
        ([0, 0, 150, 150], "large"),
        ([0, 95, 200, 36], None),
        ([60, 60, 100, 100], "no_reference"),
    ],
)
def test_boxes_that_are_no_evidence(bbox, reason, tmp_path):
    if reason is None:
        assert len(made(tmp_path, dog(bbox=bbox)).questions) == 1
    else:
        with pytest.raises(UserError, match=f"gives no question: {reason} 1"):
            made(tmp_path, dog(bbox=bbox))


def test_kinds_are_asked_where_nothing_else_of_the_kind_touches(tmp_path):
    cat = dog(id=7, category_id=17, bbox=[90, 90, 60, 60])
    with pytest.raises(UserError, match="ambiguous 2"):
        made(tmp_path, dog(), cat, use="type")
    found = made(tmp_path, dog(), cat | {"bbox": [100, 100, 60, 60]}, use="type")
    assert [t for t, _ in texts(found)] == [
        "What kind of animal is shown at [x=40,y=40,w=60,h=60]?",
        "What kind of animal is shown at [x=100,y=100,w=60,h=60]?",
    ]
    with pytest.raises(UserError, match="gives no question"):  # the only vehicle is the car: nothing to tell apart
        made(tmp_path, dog(category_id=3), use="type")


PICTURES = {
    "missing": (None, "image_missing"), "empty": (b"", "image_empty"),
    "text": (b"<html>404</html>", "image_not_an_image"),
    "other size": ((100, 200), "image_size"), "turned size": ((201, 200), "image_size"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "reason"), PICTURES.values(), ids=PICTURES)
def test_pictures_that_are_not_what_the_file_says(content, reason, tmp_path):
    images = [*data()["images"], {"id": 10, "file_name": "b.png", "width": 200, "height": 200}]
    path = written(tmp_path, data(images=images, annotations=[dog(), dog(id=6, image_id=10)]))
    if isinstance(content, tuple):
        Image.new("RGB", content).save(tmp_path / "b.png")
    elif content is not None:
        (tmp_path / "b.png").write_bytes(content)
    found = construct(path, tmp_path, recipe("questions.use=[count]"))
    assert found.pictures == {"usable": 1, reason: 1} and [q.picture.id for q in found.questions] == [9]


OUTSIDE = {
    "../b.png": "image_outside_root", "/etc/passwd": "image_outside_root", "a\0.png": "image_path",
    "x" * 5000: "image_path", "data:image/png;base64,AAAA": "image_path", "http://example.org/a.png": "image_address",
}  # fmt: skip


@pytest.mark.parametrize(("name", "reason"), OUTSIDE.items(), ids=[key[:12] for key in OUTSIDE])
def test_no_picture_is_read_from_outside_the_folder(name, reason, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("RGB", (200, 200)).save(tmp_path / "b.png")
    images = [*data()["images"], {"id": 10, "file_name": name, "width": 200, "height": 200}]
    path = written(folder, data(images=images, annotations=[dog(), dog(id=6, image_id=10)]))
    found = construct(path, folder, recipe("questions.use=[count]")).pictures
    assert found["usable"] == 1 and found.total() == 2 and found[reason] == 1, found


def test_a_damaged_picture_is_found_if_asked(tmp_path):
    import random

    noise = Image.frombytes("RGB", (200, 200), random.Random(0).randbytes(120_000))
    path = written(tmp_path, data())
    noise.save(tmp_path / "a.png")
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:20_000])
    assert len(construct(path, tmp_path, recipe("questions.use=[count]")).questions) == 1
    with pytest.raises(UserError, match=r"has none of the 1 pictures .*image_truncated"):
        construct(path, tmp_path, recipe("questions.use=[count]", "questions.decode=true"))


def test_a_folder_of_other_pictures_says_so(tmp_path):
    path = written(tmp_path, data())
    (tmp_path / "other").mkdir()
    with pytest.raises(UserError, match=r"has none of the 1 pictures .*image_missing"):
        construct(path, tmp_path / "other", recipe())
    with pytest.raises(UserError, match="is no folder"):
        construct(path, tmp_path / "nowhere", recipe())
