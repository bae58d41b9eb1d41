"""The mean over benchmarks."""

from __future__ import annotations

import json

import pytest

from mmcredit.evaluation.average import average
from mmcredit.types import UserError


def scores(folder, name, **values):
    folder.mkdir(parents=True)
    metrics = {scorer: {"accuracy": {"value": value}} for scorer, value in values.items()}
    report = {"benchmark": name, "headline": "accuracy", "k": 8, "questions": 4, "scorer": "fixed", "metrics": metrics}
    (folder / "scores.json").write_text(json.dumps(report))


def test_each_benchmark_counts_the_same(tmp_path):
    scores(tmp_path / "0", "A", fixed=0.5, official=0.25)
    scores(tmp_path / "1", "B", fixed=0.9)
    result = average(tmp_path)
    assert result["average"] == pytest.approx(0.7) == json.loads((tmp_path / "average.json").read_text())["average"]
    text = (tmp_path / "average.md").read_text()
    assert "| A | accuracy | 8 | 50.00 | 25.00 |" in text and "| B | accuracy | 8 | 90.00 | - |" in text
    assert "Average of 2 benchmarks, each the same: 70.00" in text


def test_what_cannot_be_averaged_is_said(tmp_path):
    with pytest.raises(UserError, match=r"no scores\.json below"):
        average(tmp_path)
    scores(tmp_path / "0", "A", fixed=0.5)
    scores(tmp_path / "1", "A", fixed=0.5)
    with pytest.raises(UserError, match="two evaluations of A"):
        average(tmp_path)
