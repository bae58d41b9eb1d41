"""The audit of CED recovers what was planted, and its statistics are those computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mmcredit.callbacks.ced import CED
from mmcredit.diagnostics.boxes import elsewhere
from mmcredit.diagnostics.ced_audit import CEDAudit, summary
from mmcredit.diagnostics.ced_margins import Measured, Probe, of_questions, win
from mmcredit.diagnostics.ced_rewards import answers_vary, rewards, tells_right_from_wrong
from mmcredit.diagnostics.draws import Resampler
from mmcredit.evaluation.statistics import Bootstrap
from mmcredit.types import UserError

ROW = Measured(0, 0, 1.0, (0.5, 0.0), 0.5, 1.0, 1.0, True, "a", 10, 0.1)


@pytest.fixture(scope="module")
def audit(short_bank, make_setting, shipped):
    """Sections by title, margins without a floor standing aside."""
    method = CED(sigma_floor=0.1)
    made = CEDAudit(method, iou_bins=(1.0, 0.3, 0.1, 0.0), scales=(), shifts=())
    findings = made(make_setting(short_bank, batch=28, base=shipped))
    return {s.title.removeprefix("base: "): {next(iter(r.values())): r for r in s.rows} for s in findings.sections}


def test_only_the_true_box_has_a_margin(audit):
    rows = audit["Boxes"]
    assert rows["true box"]["margin"].low > 0.1 and rows["true box"]["gap"].value > 0.2
    assert rows["true box"]["beats"].value > 0.6
    assert abs(rows["random box"]["gap"].value) < 0.25 * rows["true box"]["gap"].value
    assert rows["random box"]["margin - true box"].high < 0 and rows["random box"]["margin"].value < 0.1


def test_the_blindfold_leaves_nothing_to_tell_regions_apart(audit):
    row = audit["Boxes"]["blindfold"]
    assert row["beats"].value == pytest.approx(0.5, abs=0.06)
    assert abs(row["gap"].value) < 0.01 and abs(row["margin"].value) < 0.1


def test_the_margin_falls_with_the_overlap(audit):
    rows = [row for name, row in audit["Perturbations"].items() if name.startswith("IoU")]
    margins = [row["margin"].value for row in rows]
    assert margins == sorted(margins, reverse=True) and margins[0] > margins[-1] + 0.1
    assert rows[-1]["margin - true box"].high < 0


def test_interventions_families_and_rewards_are_there(audit):
    rows = audit["Interventions"]
    assert set(rows) == {"mean", "zero", "gaussian", "global mask"}
    assert rows["mean"]["margin"] == audit["Boxes"]["true box"]["margin"]
    assert rows["mean"]["AUC evidence"].value > 0.6 > rows["global mask"]["AUC evidence"].value
    assert set(audit["Families"]) == {"attribute", "counting", "presence", "spatial"}
    assert audit["Rewards"]["non-constant raw reward"]["value"].value >= 0.5


def test_a_model_without_sight_has_no_margin(short_bank, make_setting, blind):
    """The drops are those of features that are zero everywhere."""
    method = CED(sigma_floor=0.1)
    rows = Probe(make_setting(short_bank, base=blind), method)(blind, lambda sample: sample, method.views)
    assert len(rows) > 50 and max(abs(row.s_ev) for row in rows) < 2e-6  # rounding of rows of another length
    assert max(abs(row.margin) for row in rows) < 1e-4
    assert all(row.beats(1e-5) == 0.5 == row.auc(1e-5) for row in rows)


def test_the_probe_gives_what_the_method_rewards(short_bank, make_setting, shipped):
    """Equal to CED's own hook on the same rollout; a changed box is the sample that CED would have got."""
    from mmcredit.credit import Record

    method, setting = CED(), make_setting(short_bank, batch=28, base=shipped)
    rows = Probe(setting, method)(shipped, lambda sample: sample, method.views)
    scorer = setting.scorer(shipped)
    rollout, record = setting.frozen(shipped, 0, 28, scorer), Record()
    reward_BG = method.on_reward(rollout, scorer, record)
    for row in rows:
        place = row.question, row.response
        assert row.reward == pytest.approx(float(reward_BG[place]), abs=1e-3)
        assert row.margin == pytest.approx(float(record.per_response["ced/margin"][place]), abs=1e-3)
        assert row.s_ev == pytest.approx(float(record.per_response["ced/s_ev"][place]), abs=1e-5)
    some = Probe(setting, method)(shipped, lambda s: elsewhere(s) if s.family == "spatial" else None, method.views)
    assert {short_bank.samples[row.question].family for row in some} == {"spatial"}
    assert len(some) == sum(short_bank.samples[row.question].family == "spatial" for row in rows)


def test_wins_by_hand():
    assert ROW.gap == 0.75 and ROW.beats(0.0) == 1.0 and ROW.beats(0.8) == 0.5
    assert replace(ROW, s_ev=0.2).auc(0.0) == 0.5 and replace(ROW, s_ev=0.2).auc(0.25) == 0.25
    assert [win(-1, 0.5), win(0, 0.0), win(0.5, 0.5), win(0.6, 0.5)] == [0.0, 0.5, 0.5, 1.0]


def test_right_and_wrong_pairs_and_equal_answers_by_hand():
    right = [replace(ROW, s_ev=s, correct=True) for s in (3.0, 1.0)]
    wrong = [replace(ROW, s_ev=s, correct=False) for s in (2.0, 1.0)]
    assert tells_right_from_wrong([*right, *wrong], 0.0) == (1 + 1 + 0 + 0.5) / 4
    assert math.isnan(tells_right_from_wrong(right, 0.0))
    group = [replace(ROW, answer="2", reward=1.0), replace(ROW, answer="2.0", reward=0.5)]
    assert answers_vary(group) == 1.0 and answers_vary([group[0], group[0]]) == 0.0
    assert math.isnan(answers_vary([group[0], replace(ROW, answer="3")]))


def test_reward_statistics_by_hand():
    """Two groups: raw rewards differ in both, clipped ones in the first; yes earns (1 + .5)/2, no .25."""
    rows = [
        replace(ROW, question=0, response=0, answer="yes", reward=1.0, raw_reward=1.1, length=10),
        replace(ROW, question=0, response=1, answer="no", reward=0.25, raw_reward=0.25, correct=False, length=40),
        replace(ROW, question=1, response=0, answer="yes", reward=0.5, raw_reward=0.6, length=30),
        replace(ROW, question=1, response=1, answer="yes", reward=0.5, raw_reward=0.7, length=30),
        replace(ROW, question=2, response=0, answer="7", reward=9.0, length=30),
    ]
    found = {k: v.value for k, v in rewards(rows, ["yes", "no", "7"], Resampler(Bootstrap(9), 3)).items()}
    assert found["non-constant raw reward"] == 1.0 and found["zero-variance reward"] == 0.5
    assert found["non-constant correctness"] == 0.5 and found["same answer, different reward"] == 0.0
    assert found["yes - no gap of reward"] == pytest.approx(2 / 3 - 0.25)
    assert found["yes - no gap of correctness"] == pytest.approx(1.0)
    lengths, values = [10, 40, 30, 30, 30], [1, 0.25, 0.5, 0.5, 9]
    assert found["reward-length correlation"] == pytest.approx(np.corrcoef(lengths, values)[0, 1])
    assert math.isnan(found["reward-area correlation"])


def test_differences_count_only_questions_with_both():
    """Questions 0 and 1 have the true box, 1 the other: the difference is question 1's."""
    rows = {"true": [replace(ROW, margin=1.0), replace(ROW, question=1, margin=0.5)]}
    rows["other"] = [replace(ROW, question=1, margin=0.2)]
    table = summary("Boxes", rows, Resampler(Bootstrap(9), 2), 0.0).rows
    assert table[0]["margin"].value == 0.75 and table[1]["margin - true"].value == pytest.approx(-0.3)
    assert np.isnan(of_questions(rows["other"], [1.0], 2)[0])


@pytest.mark.parametrize("bins", [[0.7, 0.0], [1.0, 0.5], [1.0, 0.2, 0.5, 0.0], []])
def test_bins_that_do_not_fall_are_refused(bins):
    with pytest.raises(UserError, match=r"diagnostic.iou_bins=.* must fall from 1.0 to 0.0"):
        CEDAudit(CED(), iou_bins=bins)
