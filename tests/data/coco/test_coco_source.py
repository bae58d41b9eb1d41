"""From an instances file to encoded prompts, evidence regions and training steps."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image
from tests.data.coco.conftest import recipe
from tests.data.coco.oracle import Oracle
from tests.test_fit import config

from mmcredit.checks import check
from mmcredit.data.coco import construct as construct_module
from mmcredit.data.datamodule import DataModule
from mmcredit.data.gate import BadRow
from mmcredit.data.sampling import BalancedNoReplacement, Pool
from mmcredit.data.sources.coco import Coco
from mmcredit.data.templates import Template
from mmcredit.fit import fit
from mmcredit.scoring.quality import FAIR, measurable
from mmcredit.scoring.regions import evidence_box, grid_of, reference_box, region_tokens
from mmcredit.types import UserError

TRAIN = ["questions.ratio={attribute: 3, counting: 1, spatial: 3}"]


@pytest.fixture(scope="module")
def source(digits) -> Coco:
    return Coco(digits[0], digits[1], recipe(*TRAIN), "train")


def test_samples_are_the_questions_with_their_pictures(source, digits):
    oracle = Oracle(digits[2])
    for i in range(0, len(source), 7):
        sample, question = source[i], source.questions[i]
        assert sample.answer == oracle.answer(question.row(""))
        assert sample.family in ("counting", "spatial", "attribute") and sample.proposal_bbox in sample.boxes
        stored = Image.open(digits[1] / question.picture.file_name)
        assert np.array_equal(np.asarray(sample.images[0]), np.asarray(stored))
        assert source.info(i).family == sample.family
        outline = source.outline(i)
        assert (outline.id, outline.question, outline.sizes) == (sample.id, sample.question, (sample.images[0].size,))


def test_the_evidence_box_lies_on_ink(source):
    """The digit is darker than the paper: boxes and pixels belong together."""
    for i in range(0, len(source), 5):
        sample = source[i]
        for box in sample.boxes:
            x, y, w, h = (int(n) for n in (box.x, box.y, box.w, box.h))
            inside = np.asarray(sample.images[0].convert("L"))[y : y + h, x : x + w]
            for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]):
                assert edge.min() < 200


def test_splits_share_no_picture_and_sources_share_the_work(digits, monkeypatch):
    made = []
    real = construct_module.construct
    monkeypatch.setattr(construct_module, "construct", lambda *a: made.append(1) or real(*a))
    construct_module._remembered.cache_clear()
    parts = [
        Coco(digits[0], digits[1], recipe("questions.ratio=null"), split) for split in ("train", "val", "probe", "all")
    ]
    assert len(made) == 1
    pictures = [{q.picture.id for q in part.questions} for part in parts]
    assert not pictures[0] & pictures[1] and not pictures[0] & pictures[2] and not pictures[1] & pictures[2]
    assert sum(map(len, parts[:3])) == len(parts[3])
    Coco(digits[0], digits[1], recipe("questions.ratio=null", "seed=1"))
    assert len(made) == 2


def test_to_a_batch_of_the_tiny_processor(source, processor):
    data = DataModule(source, {}, Template("Reply.", ".*"), 6, 4, 0, BalancedNoReplacement())
    data.connect(processor)
    for prompts in islice(iter(data.train_dataloader()), 3):
        assert len(prompts) == 6 and all(p is not None and torch.isfinite(p).all() for p in prompts.pixels)
        families = [sample.family for sample in prompts.samples]
        assert families == ["attribute", "counting", "spatial"] * 2
        pad = processor.tokenizer.convert_tokens_to_ids(processor.image_token)
        assert [int((ids == pad).sum()) for ids in prompts.ids] == [(320 // 32) * (256 // 32)] * 6


def test_every_question_is_measurable_by_ced(source, processor):
    """The scorer's own regions: the evidence is the proposal, it has the tokens that the filter counted, and its
    reference boxes hardly meet it."""
    data = DataModule(source, {}, Template("Reply.", ".*"), 8, 4, 0)
    data.connect(processor)
    prompts = data.first_prompts(8)
    fit_B, rates = measurable(prompts, FAIR, 3)
    assert rates["box_proposal"] == 1 and fit_B.float().mean() >= 0.75
    filters = recipe().fitness
    for sample, grid_thw in zip(prompts.samples, prompts.grids, strict=True):
        grid = grid_of(sample, grid_thw, 2)
        box, _ = evidence_box(sample)
        columns, rows = filters.tokens(box, source.questions[0].picture)
        assert len(region_tokens(box, grid)) == columns * rows <= grid.tokens / 2
        for i in range(3):
            other = reference_box(sample, grid, i)
            assert other is None or other.iou(box) <= 0.05


def test_orientation_tags_are_not_applied(tmp_path):
    """A picture that viewers would turn: left stays left, and the box stays on its object."""
    canvas = Image.new("RGB", (200, 120), "white")
    canvas.paste((0, 0, 0), (10, 40, 60, 90))
    exif = Image.Exif()
    exif[0x0112] = 6
    canvas.save(tmp_path / "a.jpg", exif=exif, quality=95)
    data = {
        "images": [{"id": 1, "file_name": "a.jpg", "width": 200, "height": 120}],
        "categories": [{"id": 3, "name": "car", "supercategory": "vehicle"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 3, "bbox": [10, 40, 50, 50], "area": 2500, "iscrowd": 0}
        ],
    }
    (tmp_path / "i.json").write_text(json.dumps(data))
    (sample,) = (Coco(tmp_path / "i.json", tmp_path, recipe("questions.use=[count]"))[i] for i in range(1))
    assert sample.images[0].size == (200, 120)
    assert sample.images[0].getpixel((35, 65))[0] < 40 and sample.images[0].getpixel((100, 65))[0] > 200


def test_a_picture_that_goes_missing_in_mid_run_is_a_bad_row(digits, tmp_path):
    import shutil

    shutil.copytree(digits[1], tmp_path / "val")
    source = Coco(digits[0], tmp_path / "val", recipe())
    (tmp_path / "val" / source.questions[3].picture.file_name).unlink()
    with pytest.raises(BadRow):
        source[3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"instances": None}, "type data.instances="),
        ({"images": None}, "data.images="),
        ({"split": "test"}, "there are train, val, probe and all"),
        ({"images": "/nowhere"}, "is no folder"),
        ({"instances": "/nowhere.json"}, "cannot be read"),
    ],
)
def test_mistakes_are_named(options, words, digits):
    with pytest.raises(UserError, match=words):
        Coco(**{"instances": digits[0], "images": digits[1], "questions": recipe(), **options})


def test_it_trains(digits, tmp_path):
    """Two steps of CED on the tiny model, balanced over the families."""
    data = ["data=coco", f"data.instances={digits[0]}", f"data.images={digits[1]}", "data.questions.fitness.token=32"]
    small = ["data.batch_size=3", "algorithm.mini_batch=3", "algorithm.micro_batch=3", "rollout.group=2", "logger=csv"]
    small += ["rollout.max_new_tokens=6", "data/sampler=balanced_no_replacement", "steps=2", "~data.val.probe"]
    summary = fit(config(tmp_path, *data, *small))
    assert summary["steps"] == 2 and summary["val_accuracy_end"] is not None
    header, *rows = (tmp_path / "csv" / "metrics.csv").read_text().splitlines()
    logged = [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows]
    assert {float(row["ced/box_proposal_rate"]) for row in logged if row.get("ced/box_proposal_rate")} == {1.0}


def test_oracles_of_the_world_are_refused(digits, tmp_path):
    data = ["data=coco", f"data.instances={digits[0]}", f"data.images={digits[1]}", "callbacks=[pacg]"]
    with pytest.raises(UserError, match="router=oracle knows only the embedded world"):
        check(config(tmp_path, *data))


def test_families_take_turns(source):
    pool = Pool(source)
    counts = Counter(source.questions[i].family for n in range(5) for i in BalancedNoReplacement().batch(n, pool, 6, 0))
    assert set(counts.values()) == {10}
