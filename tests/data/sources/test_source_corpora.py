"""Every corpus, in its real form on disk, to a training batch; and one step of training."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from tests.data import corpora
from tests.test_fit import SMALL, config

from mmcredit.data.datamodule import DataModule
from mmcredit.data.sources.table import Table
from mmcredit.data.templates import Template
from mmcredit.fit import fit
from mmcredit.launch import user_error
from mmcredit.missing import missing_data

TEMPLATE = Template("Look.", ".*")
CORPORA: dict[str, tuple[str, Callable[[Path], Path], list[str]]] = {  # name -> yaml, files, further settings
    "virl39k zip": ("virl39k", corpora.virl39k, []),
    "virl39k extracted": ("virl39k", lambda folder: corpora.virl39k(folder, zipped=False), []),
    "easyr1 geometry3k": ("easyr1", corpora.geometry3k, []),
    "mmk12 parquet": ("mmk12", corpora.mmk12, []),
    "mmk12 json": ("mmk12", corpora.k12_json, []),
    "mmfinereason": ("mmfinereason", corpora.mmfinereason, []),
    "finevision": ("finevision", corpora.finevision, ["data.configs=[ai2d,aokvqa]", "data.take=3"]),
    "vg_brutal flat": ("vg_brutal", corpora.vg_brutal, ["data.val_share=0", "data.probe_share=0"]),
    "vg_brutal folders": (
        "vg_brutal",
        lambda folder: corpora.vg_brutal(folder, flat=False),
        ["data.val_share=0", "data.probe_share=0"],
    ),
    "vlmeval_tsv": ("vlmeval_tsv", corpora.tsv, []),
}
SIZES = {
    "virl39k zip": 6, "virl39k extracted": 6, "easyr1 geometry3k": 5, "mmk12 parquet": 4, "mmk12 json": 3,
    "mmfinereason": 4, "finevision": 6, "vg_brutal flat": 21, "vg_brutal folders": 21, "vlmeval_tsv": 3,
}  # fmt: skip
LOSSY = ("virl39k zip", "virl39k extracted", "vg_brutal flat", "vg_brutal folders")  # JPEG


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], tuple[Path, Any]]]:
    """The file or folder of a corpus and its composed configuration."""
    folder = tmp_path_factory.mktemp("corpora")
    paths = dict[str, Path]()

    def make(name: str) -> tuple[Path, Any]:
        group, write, settings = CORPORA[name]
        if name not in paths:
            paths[name] = write(folder / name.replace(" ", "_"))
        return paths[name], config(folder / "run", f"data={group}", f"data.path={paths[name]}", *settings)

    with corpora.cache(folder / "cache"):
        yield make


@pytest.fixture(params=CORPORA)
def source(request: pytest.FixtureRequest, made: Callable[[str], tuple[Path, Any]]) -> tuple[str, Table]:
    return request.param, instantiate(made(request.param)[1].data.train)


def test_all_rows_are_admitted_with_their_pictures(source: tuple[str, Table]) -> None:
    name, rows = source
    assert len(rows) == SIZES[name]
    assert set(rows.report.dropped) <= {"family", "negative_row"}
    assert rows.report.kept + rows.report.dropped.total() == rows.report.read
    assert rows.report.kinds.total() == len(rows)
    assert len({sample.id for sample in rows}) == len(rows)
    shown = rows[0].images[0]
    assert (shown.mode, shown.size) == ("RGB", (corpora.WIDTH, corpora.HEIGHT))
    difference = np.abs(np.asarray(shown, int) - np.asarray(corpora.picture(0), int))
    assert difference.max() == 0 if name not in LOSSY else difference.mean() < 8


def test_a_corpus_becomes_training_batches(source: tuple[str, Table], processor: Any) -> None:
    _, rows = source
    data = DataModule(rows, {}, TEMPLATE, batch_size=3, val_batch_size=4, seed=1)
    data.connect(processor)
    seen = set[str]()
    for prompts in islice(data.train_dataloader(), 2 * (len(rows) // 3)):
        assert len(prompts) == 3
        for sample, ids, pixels, grids in zip(prompts.samples, prompts.ids, prompts.pixels, prompts.grids, strict=True):
            seen.add(sample.id)
            text = processor.tokenizer.decode(ids)
            assert "Look." in text and "<image>" not in text
            if not sample.images:
                assert pixels is None and grids is None
                continue
            assert pixels is not None and grids is not None and torch.isfinite(pixels).all()
            assert len(grids) == len(sample.images) and len(pixels) == grids.prod(1).sum()
    assert len(seen) >= len(rows) - len(rows) % 3


def test_the_length_of_a_prompt_is_known_without_its_pictures(source: tuple[str, Table], processor: Any) -> None:
    _, rows = source
    data = DataModule(rows, {}, TEMPLATE, batch_size=1, val_batch_size=4, seed=1)
    data.connect(processor)
    for index in range(len(rows)):
        assert data.encoder.length(rows.outline(index))[0] == len(data.encoder([rows[index]]).ids[0])


def test_a_source_survives_the_way_to_a_worker_process(source: tuple[str, Table]) -> None:
    _, rows = source
    again = pickle.loads(pickle.dumps(rows))
    assert again[0].images[0].tobytes() == rows[0].images[0].tobytes()
    assert again.bare(len(again) - 1) == rows.bare(len(rows) - 1)


def test_the_path_passes_the_checks_before_a_run(made: Callable[[str], tuple[Path, Any]]) -> None:
    for name in CORPORA:
        assert missing_data(made(name)[1]) == []


def test_parts_are_disjoint_and_whole(made: Callable[[str], tuple[Path, Any]]) -> None:
    path, _ = made("easyr1 geometry3k")
    cfg = config(path.parent / "run", "data=easyr1", f"data.path={path}", "data.val_share=0.5")
    train, val = instantiate(cfg.data.train), instantiate(cfg.data.val.val)
    assert {s.id for s in train} | {s.id for s in val} == {"0", "1", "2", "3", "4"}
    assert len(train) + len(val) == 5 and len(train) and len(val)


@pytest.mark.parametrize("name", ["data=virl39k", "data=vg_brutal"])
def test_no_path_is_said_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(Exception) as caught:  # Hydra's, around ours
        instantiate(config(tmp_path, name).data.train)
    assert "data.path is not set: type data.path=" in str(user_error(caught.value))


def test_a_corpus_trains(tmp_path: Path) -> None:
    """One step on ViRL39K's files, with the rows held out for validation."""
    with corpora.cache(tmp_path / "cache"):
        path = corpora.virl39k(tmp_path / "virl39k", corpora.virl39k_rows(16))
        small = [option for option in SMALL if "data.val" not in option]
        given = [f"data.path={path}", "data.val_share=0.3", "template=boxed", "callbacks=[]", "steps=1"]
        summary = fit(config(tmp_path / "run", *small, "data=virl39k", *given))
    assert summary["steps"] == 1 and summary["val_accuracy_end"] is not None
