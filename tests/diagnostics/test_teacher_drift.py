"""The teacher's signals and their drift."""

from __future__ import annotations

import pytest
import torch

from mmcredit.callbacks.pace import PACE, robust_z
from mmcredit.credit import Record
from mmcredit.diagnostics.draws import Resampler, means
from mmcredit.diagnostics.teacher_drift import QUANTITIES, Signals, TeacherDrift, drift
from mmcredit.evaluation.statistics import Bootstrap
from mmcredit.types import UserError


def test_a_blind_teacher_has_no_gap_and_equal_contrasts(think_bank, make_setting, shipped, blind):
    made = TeacherDrift(PACE())
    setting = make_setting(think_bank, base=shipped, blind=blind)
    assert {s.vision_gap for s in made.signals(setting, blind)} == {0.0}
    assert all(s.delta == s.delta_null for s in made.signals(setting, blind))
    levels, change = made(setting).sections
    assert levels.rows[0]["vision_gap"].value != 0
    assert change.rows[0]["vision_gap"].value == pytest.approx(-levels.rows[0]["vision_gap"].value)
    assert levels.rows[1]["lambda P50"] == pytest.approx(0.4, abs=0.02)


def test_signals_are_those_that_pace_logs(think_bank, make_setting, shipped):
    setting, method, record = make_setting(think_bank, batch=16, base=shipped), PACE(), Record()
    rows = TeacherDrift(method).signals(setting, shipped)
    scorer = setting.scorer(shipped)
    rollout = setting.frozen(shipped, 0, 16, scorer)
    method.on_advantage(rollout, rollout.mask_BGT.float(), scorer, record)
    assert len(rows) == len(record.histograms["pace/vision_gap"])
    for key in ("vision_gap", "delta", "delta_null", "confidence"):
        values = record.per_response[f"pace/{key}"]
        for row in rows:
            assert getattr(row, key) == pytest.approx(float(values[row.question, row.response]), abs=1e-5)
    rates = torch.tensor([float(record.per_response["pace/rate"][r.question, r.response]) for r in rows])
    assert TeacherDrift(method).rates(rows) == pytest.approx(
        [float(rates.quantile(q)) for q in (0.1, 0.5, 0.9)], abs=1e-4
    )
    assert robust_z(rates, rates).abs().max() <= 3


def test_drift_by_hand():
    """The gap goes from .2 to .4, delta from 0 to .01, delta_null from .01 to 0: 20 times as far as either."""
    first = [Signals(q, 0, 0.2, 0.0, 0.01, 0.2) for q in range(3)]
    last = [Signals(q, 0, 0.4, 0.01, 0.0, 0.3) for q in range(3)]
    resampler = Resampler(Bootstrap(9), 3)
    (row,) = drift({"a": means(first, QUANTITIES, resampler), "b": means(last, QUANTITIES, resampler)}, resampler).rows
    assert (row["from"], row["to"]) == ("a", "b") and row["confidence"].value == pytest.approx(0.1)
    assert row["vision_gap / delta"].value == pytest.approx(20) == row["vision_gap / delta_null"].low
    assert not drift({"a": means(first, QUANTITIES, resampler)}, resampler).rows


def test_without_a_wrong_answer_there_is_nothing_to_contrast(think_bank, make_setting, shipped):
    from dataclasses import replace

    right = tuple(tuple(replace(r, correct=True) for r in group) for group in think_bank.responses[:1])
    lone = replace(think_bank, samples=think_bank.samples[:1], responses=right)
    with pytest.raises(UserError, match="no response of the bank has a right and a wrong hint"):
        TeacherDrift(PACE())(make_setting(lone, base=shipped))
