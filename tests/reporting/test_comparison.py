"""Tables of a comparison, by hand; and its pages."""

from __future__ import annotations

import re

import pytest
from run_case import make_run

from mmcredit.reporting.arms import arms
from mmcredit.reporting.comparison import compare, late
from mmcredit.reporting.comparison_pages import cell, write_report
from mmcredit.reporting.curves import figure, learning_curve
from mmcredit.reporting.runs import load_run
from mmcredit.types import UserError

ACCURACY = {"": (0.5, 0.6, 0.7), "CED": (0.6, 0.8, 1.0), "PACG": (0.5, 0.6, 0.7)}


@pytest.fixture
def found(tmp_path):
    paths = [
        make_run(
            tmp_path / f"{method}{seed}", *method.split(), seed=seed, accuracy=value,
            curves={"reward/total": [value, 1.0, 1.0, 1.0]} | ({"ced/gate": [9.0, 9.0, 9.0, value]} if method else {}),
        )
        for method, values in ACCURACY.items()
        for seed, value in enumerate(values)
    ]  # fmt: skip
    return arms([load_run(path) for path in paths])[0]


def table(compared, title):
    return next(table for table in compared.tables if table.title == title)


def test_the_tables_by_hand(found):
    compared = compare(found, None)
    assert compared.baseline.name == "no method" and compared.warnings == ()
    results = table(compared, "Results")
    assert results.head == ("metric", "no method n=3", "CED n=3", "PACG n=3")
    assert results.rows == (("val/accuracy", "0.6 ± 0.1", "0.8 ± 0.2", "0.6 ± 0.1"),)
    # differences .1, .2, .3: mean .2, t(.975, 2) .1 / sqrt(3) = .248; Welch: error .1291, 2.94 degrees of freedom
    assert table(compared, "CED - no method").rows == (
        ("val/accuracy", "+0.200", "3", "-0.048 .. +0.448", "0.074", "-0.216 .. +0.616", "0.221"),
    )
    assert table(compared, "PACG - no method").rows[0][:5] == ("val/accuracy", "+0.000", "3", "-", "-")
    assert table(compared, "Methods").rows == (("ced/gate", "-", "0.8 ± 0.2", "0.6 ± 0.1"),)
    timing = dict((row[0], row[1:]) for row in table(compared, "Time and passes").rows)
    assert timing["rollout s"] == ("0.5 ± 0",) * 3 and timing["tokens computed"] == ("100 ± 0",) * 3
    assert timing["extra views"] == ("0 ± 0", "4 ± 0", "4 ± 0")
    assert [row[:3] for row in table(compared, "Runs").rows][:2] == [("no method", "0", "4"), ("no method", "1", "4")]


def test_the_baseline_can_be_named(found):
    assert compare(found, "CED").tables[1].title == "no method - CED"
    with pytest.raises(UserError, match="--baseline 'x' does not exist; use one of no method; CED; PACG"):
        compare(found, "x")


def test_unfair_comparisons_are_marked_wherever_they_stand(tmp_path, found):
    long = load_run(make_run(tmp_path / "long", "VPPO", steps=400))
    compared = compare([*found, *arms([long])[0]], None)
    (warning,) = compared.warnings
    assert warning.startswith("VPPO is not comparable with no method: budget: 400 steps")
    assert "seeds: 0 against 0 and 1 and 2" in warning
    assert table(compared, "Results").head[-1] == "VPPO (not comparable) n=1"
    assert table(compared, "VPPO - no method").note.startswith("NOT COMPARABLE")


def test_late_is_the_mean_of_the_last_quarter():
    assert late({step: float(step) for step in range(1, 9)}) == 7.5
    assert late({3: 2.0, 1: 1.0}) == 2.0 and late({}) is None


def test_curves_are_means_over_the_seeds_that_logged_a_step(found):
    curve = learning_curve(found[1], "reward/total")
    assert curve[1].mean == pytest.approx(0.8) and curve[1].std == pytest.approx(0.2) and curve[4].std == 0
    del found[1].runs[2].curves["reward/total"][4]
    assert learning_curve(found[1], "reward/total")[4].n == 2
    assert figure(found, ["reward/total", "ced/gate"]) == figure(found, ["reward/total", "ced/gate"])
    assert figure(found, ["nothing/logged"]) is None


def test_the_pages_hold_everything_as_text(tmp_path, found):
    hostile = load_run(make_run(tmp_path / "x", optimizer={"lr": "<script>alert(1)</script>|\u202e"}))
    compared = compare([*found, *arms([hostile])[0]], None, ["left out: <b>&\n\x00"])
    page = write_report(compared, ["reward/total"], tmp_path / "out").read_text("utf-8")
    assert "<script" not in page and "\u202e" not in page and "left out: &lt;b&gt;&amp;" in page
    assert set(re.findall(r"(?:src|href)=\"(\w+:)", page)) == {"data:"} and "script-src" not in page
    assert "default-src 'none'" in page and "0.8 ± 0.2" in page
    text = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "<script" not in text and "| val/accuracy | 0.6 ± 0.1 | 0.8 ± 0.2 |" in text
    rows = [line for line in text.splitlines() if line.startswith("| val/accuracy | 0.6")]
    assert len(rows) == 1 and "![learning curves](curves.svg)" in text
    assert (tmp_path / "out" / "curves.svg").read_text("utf-8").count("<svg") == 1


def test_a_cell_cannot_leave_its_table():
    assert cell("a|b\nc*d_`<i>[x](y)") == r"a&#124;b⏎ c\*d\_\`&lt;i&gt;\[x\](y)"
