"""Exposure of routed claims: by hand, unseen by the training it watches, and replayed from a run."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from tests.callbacks.ragged import GivenRouter, claim, rollout_of, written
from tests.diagnostics.conftest import run_diagnose
from tests.test_fit import SMALL, config

from mmcredit.algorithm.reduction import TokenMean
from mmcredit.build import build
from mmcredit.callbacks.pacg import PACG
from mmcredit.credit import Record
from mmcredit.diagnostics.exposure import Exposure, table
from mmcredit.diagnostics.exposure_watch import ExposureWatch, StepExposure, Tap, watched
from mmcredit.evaluation.statistics import Bootstrap
from mmcredit.fit import fit
from mmcredit.replay import replay
from mmcredit.services.claims import Routing
from mmcredit.services.oracle_router import OracleRouter
from mmcredit.types import UserError

SCORER = SimpleNamespace(encoder=SimpleNamespace(special_ids=torch.tensor([1, 2])))


def ratio(logp, old, mask):
    return (logp - old).exp()


def test_shares_and_mass_by_hand():
    """Two responses of 4 tokens to one prompt, the first two tokens of each a claim; clip at 1.2."""
    ids = [[[10, 11, 12, 1], [20, 21, 22, 1]]]
    rollout = rollout_of(ids, torch.zeros(1, 2, 4), [True])
    texts = [written(row)[0] for row in ids[0]]
    routings = {t: Routing(((claim(t[:8]), (0, 8)),)) for t in texts}
    algorithm = SimpleNamespace(mini_batch=1, reduction=TokenMean(), ratio=ratio, clip_high=0.2)
    watch = ExposureWatch(GivenRouter(routings), algorithm, Tap())
    parent = torch.tensor([[[2.0, 2, 2, 2], [-1, 1, -1, -1]]])
    applied = parent * torch.tensor([0.5, 1, 1, 1])
    watch.parent.on_advantage(rollout, parent, SCORER, Record())
    assert watch.on_advantage(rollout, applied, SCORER, Record()) is applied
    for change in (0.0, 0.1):  # two updates; in the second the first response's tokens moved beyond the clip, but one
        logp = torch.tensor([[[change, 3 * change, change, change], [change] * 4]])
        assert watch.on_loss(rollout, logp, SCORER, Record()) is None
    watch.finish(7)
    watch.finish(8)  # nothing was trained
    # P: (1 + 1/2)/2. Mass, each weight 1/8: first response (1 + 2)/8 + 1/8, second 1/8 + 1/8, each over 2 tokens
    assert watch.steps == [StepExposure(7, 0.75, pytest.approx((4 / 8 / 2 + 2 / 8 / 2) / 2))]


def test_without_claims_a_step_is_not_known():
    rollout = rollout_of([[[10, 1]]], torch.zeros(1, 1, 2), [False])
    watch = ExposureWatch(GivenRouter(), SimpleNamespace(), Tap())
    for method in (watch.parent, watch):
        method.on_advantage(rollout, torch.ones(1, 1, 2), SCORER, Record())
    watch.finish(1)
    assert math.isnan(watch.steps[0].positive) and not watch.router.asked


def test_the_tap_stands_before_the_gate():
    pacg, other, watch = PACG(OracleRouter()), Tap(), ExposureWatch(OracleRouter(), SimpleNamespace(), Tap())
    assert watched([other, pacg], watch) == [other, watch.parent, pacg, watch]
    assert watched([], watch) == [watch.parent, watch]


def test_runs_are_compared_with_the_first():
    steps = {"a": [StepExposure(181, 0.5, 0.2), StepExposure(182, 0.7, 0.4)]}
    steps["b"] = [StepExposure(181, 0.2, 0.6), StepExposure(182, math.nan, 1.2)]
    (section,) = table(steps, Bootstrap(100)).sections
    a, b = section.rows
    assert a["P_pos"].value == pytest.approx(0.6) and b["P_pos"].value == 0.2 and a["steps"] == "181-182"
    assert b["M_eff / a"].value == pytest.approx(3) == b["M_eff / a"].low


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A finished run of two steps, with the configuration that Hydra keeps."""
    folder = tmp_path_factory.mktemp("run")
    cfg = config(folder, *SMALL, "template=think", "callbacks=[pacg]", "callbacks.pacg.min_residual=4", "steps=2")
    (folder / "config").mkdir()
    OmegaConf.save(cfg, folder / "config" / "config.yaml")
    fit(cfg)
    return folder


def test_a_run_is_replayed_from_its_checkpoint_and_from_its_start(run_folder):
    later = Exposure({"pacg": str(run_folder)}, Bootstrap(50), replay, steps=2)().sections[0].rows[0]
    first = Exposure({"pacg": str(run_folder)}, Bootstrap(50), replay, steps=2, resume=False)().sections[0].rows[0]
    assert (later["steps"], first["steps"]) == ("3-4", "1-2")
    for row in (later, first):
        assert 0 <= row["P_pos"].value <= 1 and row["M_eff / pacg"].value == 1.0
    assert first["P_pos"] != later["P_pos"]


def test_the_entry_point_replays(run_folder, tmp_path):
    run_diagnose(tmp_path, "diagnostic=exposure", f"diagnostic.runs={{a: {run_folder}}}", "diagnostic.steps=1")
    content = json.loads((tmp_path / "table.json").read_text())
    assert content["sections"][0]["rows"][0]["steps"] == "3-3" and "bank" not in content


def test_watching_changes_no_weight(tmp_path):
    """The watched run's weights are those of the run by itself"""
    found, masses = [], []
    for watching in (False, True):
        cfg = config(tmp_path, *SMALL, "template=think", "callbacks=[pacg]", "callbacks.pacg.min_residual=4", "steps=1",
                     "logger=none", "observers=[]", "data.train.size=64")  # fmt: skip
        run = build(cfg)
        watch = ExposureWatch(OracleRouter(), run.module.algorithm, Tap())
        if watching:
            run.module.chain = tuple(watched(run.module.chain, watch))
        run.trainer.fit(run.module, datamodule=run.data)
        found.append([p.detach().clone() for p in run.module.policy.parameters()])
        masses.append(watch.mass_BGT.sum())
    apart = max(float((a - b).abs().max()) for a, b in zip(*found, strict=True))
    assert masses[1] > 0 and apart < 1e-5  # rows without credit join the passes: rounding, magnified by Adam


def test_mistakes(run_folder, tmp_path):
    with pytest.raises(UserError, match=r"diagnostic.runs=None must name run folders"):
        Exposure(None, Bootstrap(5), replay)
    with pytest.raises(UserError, match=r"run a: .*config.yaml does not exist; mmcredit.fit writes it"):
        Exposure({"a": str(tmp_path)}, Bootstrap(5), replay)
    assert json.loads((run_folder / "summary.json").read_text())["steps"] == 2
