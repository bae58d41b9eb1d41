"""The job: files that ``data=jsonl`` reads, a report that counts them, and the same files after an interruption."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import hydra
import pytest
from omegaconf import DictConfig
from PIL import Image
from tests.data.coco.corpus import corpus

from mmcredit.data.coco.question import split_of
from mmcredit.data.sources.coco import Coco
from mmcredit.data.sources.jsonl import Jsonl
from mmcredit.launch import user_error
from mmcredit.preparation import coco_evidence
from mmcredit.preparation.files import read_rows
from mmcredit.prepare import prepare
from mmcredit.types import UserError

SPLITS = ("train", "val", "probe")


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> tuple[Path, Path]:
    return corpus(tmp_path_factory.mktemp("digits"), 60, seed=1)


def job(digits: tuple[Path, Path], out: Path, *overrides: str) -> DictConfig:
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        options = [f"instances={digits[0]}", f"images={digits[1]}", f"out={out}", "questions.fitness.token=32"]
        return hydra.compose("prepare", overrides=["job=coco_evidence", *options, *overrides])


@pytest.fixture(scope="module")
def whole(digits, tmp_path_factory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("out") / "coco"
    return out, prepare(job(digits, out))


def files(folder: Path) -> dict[str, bytes]:
    """All but what tells the time."""
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "report.json"
    }


def refused(cfg: DictConfig) -> str:
    with pytest.raises(Exception) as caught:
        prepare(cfg)
    mistake = user_error(caught.value)
    assert isinstance(mistake, UserError) and "\n" not in str(mistake), caught.value
    return str(mistake)


def test_the_files_are_what_the_source_serves(whole, digits):
    """Row by row the samples of data=coco, through data=jsonl."""
    out, _ = whole
    for split in SPLITS:
        rows = Jsonl(out / f"{split}.jsonl")
        with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
            cfg = hydra.compose("fit", ["data=coco", "data.questions.fitness.token=32"])
        direct = Coco(*digits, hydra.utils.instantiate(cfg.data.questions), split)
        assert len(rows) == len(direct) > 0
        for one, other in zip(
            (rows[i] for i in range(0, len(rows), 5)), (direct[i] for i in range(0, len(rows), 5)), strict=True
        ):
            assert (one.id, one.question, one.answer, one.family) == (
                other.id,
                other.question,
                other.answer,
                other.family,
            )
            assert one.boxes == other.boxes and one.proposal_bbox == other.proposal_bbox
            assert one.images[0].tobytes() == other.images[0].tobytes()


def test_rows_have_the_fields_of_the_schema(whole):
    out, _ = whole
    for split in SPLITS:
        for row in read_rows(out / f"{split}.jsonl"):
            assert {"id", "image", "question", "answer", "answer_kind", "family", "task_type", "gt_present"} <= set(row)
            assert row["box_format"] == "xywh_abs" and row["meta"]["split"] == split == split_of(
                row["meta"]["image_id"]
            )
            assert {"ann_ids", "cat_ids", "template_id", "area_fraction", "file_name"} <= set(row["meta"])


def test_the_report_counts_the_files(whole, capsys):
    out, report = whole
    assert json.loads((out / "report.json").read_text()) == report
    rows = {split: read_rows(out / f"{split}.jsonl") for split in SPLITS}
    assert report["questions"] == sum(map(len, rows.values()))
    for family, counts in report["families"].items():
        for split, found in rows.items():
            assert counts.get(split, 0) == sum(row["family"] == family for row in found)
    every = sum(rows.values(), [])
    for task, outcomes in report["tasks"].items():
        assert outcomes.get("kept", 0) == sum(row["task_type"] == task for row in every)
        mine = [row["answer"] for row in every if row["task_type"] == task]
        answers = dict(report["answers"][task])
        assert answers.pop("different") == len(set(mine))
        assert all(mine.count(answer) == count for answer, count in answers.items())
    boxed = [row for row in every if row["gt_present"]]
    assert sum(report["area"].values()) == len(boxed)
    assert report["area"]["0.04..0.08"] == sum(0.04 <= row["meta"]["area_fraction"] < 0.08 for row in boxed)
    assert report["pictures"] == {"usable": 58} and report["entries"]["images"]["kept"] == 60
    assert 0.9 < report["references_found"] <= 1


def test_the_sheet_shows_boxes_in_their_colours(whole):
    sheet = Image.open(whole[0] / "contact_sheet.png").convert("RGB")
    colours = {colour for _, colour in sheet.getcolors(2**24)}
    assert {(255, 0, 0), (255, 215, 0), (0, 191, 255)} <= colours
    assert sheet.width == 4 * 320


def test_pictures_are_linked_and_the_folder_is_whole(whole, digits, tmp_path):
    out, _ = whole
    linked = next((out / "images").iterdir())
    assert linked.stat().st_nlink > 1
    shutil.copytree(out, tmp_path / "moved")
    assert len(Jsonl(tmp_path / "moved" / "train.jsonl")) == len(read_rows(out / "train.jsonl"))


def test_where_links_are_impossible_pictures_are_copied(digits, whole, tmp_path, monkeypatch):
    monkeypatch.setattr(coco_evidence.os, "link", lambda *_: (_ for _ in ()).throw(OSError(18, "cross-device link")))
    prepare(job(digits, tmp_path / "out"))
    assert files(tmp_path / "out") == files(whole[0])
    assert next((tmp_path / "out" / "images").iterdir()).stat().st_nlink == 1


def test_interrupted_and_begun_again_it_writes_the_same(digits, whole, tmp_path, monkeypatch):
    real, calls = coco_evidence.place, []

    def stopping(path: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) == 7:
            raise KeyboardInterrupt
        real(path, target)

    monkeypatch.setattr(coco_evidence, "place", stopping)
    with pytest.raises(KeyboardInterrupt):
        prepare(job(digits, tmp_path))
    assert not list(tmp_path.glob("*.jsonl")) and len(list((tmp_path / "images").iterdir())) == 6
    prepare(job(digits, tmp_path))
    assert files(tmp_path) == files(whole[0])


def test_other_settings_need_another_folder(digits, whole):
    message = refused(job(digits, whole[0], "questions.tasks.size.ratio=2"))
    assert "was begun with other settings (tasks)" in message
    assert "was begun with other settings (fitness)" in refused(job(digits, whole[0], "questions.fitness.max_area=0.3"))


def test_a_turned_picture_is_written_again_without_its_tag(tmp_path):
    """Through data=jsonl, which turns photographs upright: the box stays on its object."""
    canvas = Image.new("RGB", (200, 120), "white")
    canvas.paste((0, 0, 0), (10, 40, 60, 90))
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "val").mkdir()
    canvas.save(tmp_path / "val" / "a.jpg", exif=exif, quality=95)
    data = {
        "images": [{"id": 3, "file_name": "a.jpg", "width": 200, "height": 120}],
        "categories": [{"id": 3, "name": "car", "supercategory": "vehicle"}],
        "annotations": [
            {"id": 1, "image_id": 3, "category_id": 3, "bbox": [10, 40, 50, 50], "area": 2500, "iscrowd": 0}
        ],
    }
    (tmp_path / "i.json").write_text(json.dumps(data))
    prepare(job((tmp_path / "i.json", tmp_path / "val"), tmp_path / "out"))
    (sample,) = (s for split in SPLITS for s in Jsonl(tmp_path / "out" / f"{split}.jsonl"))
    box = sample.proposal_bbox
    assert sample.images[0].size == (200, 120) and (box.x, box.y, box.w, box.h) == (10, 40, 50, 50)
    assert sample.images[0].getpixel((35, 65))[0] < 40


def test_ids_that_are_text_do_not_leave_the_folder(tmp_path):
    Image.new("RGB", (200, 120)).save(tmp_path / "a.png")
    data = {
        "images": [{"id": "../../x", "file_name": "a.png", "width": 200, "height": 120}],
        "categories": [{"id": 3, "name": "car", "supercategory": "vehicle"}],
        "annotations": [{"id": 1, "image_id": "../../x", "category_id": 3, "bbox": [10, 40, 50, 50], "iscrowd": 0}],
    }
    (tmp_path / "i.json").write_text(json.dumps(data))
    prepare(job((tmp_path / "i.json", tmp_path), tmp_path / "a" / "b" / "out"))
    assert len(list((tmp_path / "a" / "b" / "out" / "images").iterdir())) == 1


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["instances=null"], "type instances=/path/to/instances_val2017.json images=/path/to/val2017"),
        (["instances=/nowhere.json"], "instances=/nowhere.json does not exist"),
        (["images=/nowhere"], "images=/nowhere is no folder"),
        (["questions.use=[colours]"], "there is no task 'colours'"),
    ],
)
def test_mistakes_are_one_line(overrides, words, digits, tmp_path):
    assert words in refused(job(digits, tmp_path, *overrides))
