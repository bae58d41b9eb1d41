"""The observer: a page in the run's folder, pictures in TensorBoard, and no other bit of the run."""

from __future__ import annotations

import json

import hydra
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mmcredit.fit import fit

SMALL = ["data.batch_size=4", "algorithm.mini_batch=2", "algorithm.micro_batch=2", "rollout.group=4", "steps=3"]
SMALL += ["data.val.val.size=0", "data.val.counter_prior.size=0", "rollout.max_new_tokens=16", "template=think"]
SMALL += ["callbacks=[vppo,pacg]", "++callbacks.pacg.min_residual=1"]


def run(folder, *overrides: str):
    folder.mkdir()
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        fit(hydra.compose("fit", overrides=[f"run_dir={folder}", *SMALL, *overrides]))
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0, "images": 0})
    events.Reload()
    scalars = {key: [(e.step, e.value) for e in events.Scalars(key)] for key in events.Tags()["scalars"]}
    return {key: values for key, values in scalars.items() if not key.startswith("seconds/")}, events


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched") / "run"
    return folder, *run(folder, "observers=[metrics,credit_map]", "observers.credit_map.every=2")


def test_pages_and_pictures_every_so_many_steps(watched):
    folder, _, events = watched
    pages = sorted((folder / "credit_maps").iterdir())
    assert [page.name for page in pages] == ["step_000001.html", "step_000003.html"]
    text = pages[0].read_text("utf-8")
    assert "VPPO &gt; PACG" in text and "vppo/dependence" in text and "pacg/gate" in text and "<script" not in text
    assert [image.step for image in events.Images("credit_map/0")] == [1, 3]


def test_the_run_says_where_it_comes_from_and_what_its_methods_cost(watched):
    folder, _, _ = watched
    origin = json.loads((folder / "provenance.json").read_text())
    assert origin["seed"] == 0 and origin["data"]["train"]["size"] == 100_000
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["extra_views"] == {"VPPO": 1, "PACG": 1, "together": 1}


def test_watching_changes_no_number(watched, tmp_path):
    scalars, _ = run(tmp_path / "blind", "observers=[metrics]")
    assert scalars == watched[1]
