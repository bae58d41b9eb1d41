"""The command that compares runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmcredit.report import main, report

sys.path.append(str(Path(__file__).parent / "reporting"))
from run_case import make_run

SWEEP = ["steps=3", "data.batch_size=4", "algorithm.mini_batch=4", "algorithm.micro_batch=4", "rollout.group=4"]
SWEEP += ["data.val.val.size=8", "data.val.counter_prior.size=8", "rollout.max_new_tokens=16"]


def test_a_report_is_written_beside_the_runs_or_where_asked(tmp_path, capsys):
    for seed in (0, 1):
        make_run(tmp_path / "sweep" / f"{seed}", seed=seed)
        make_run(tmp_path / "sweep" / f"{seed + 2}", "CED", seed=seed)
    assert report([str(tmp_path / "sweep")]) == tmp_path / "sweep" / "report" / "report.html"
    assert {p.name for p in (tmp_path / "sweep" / "report").iterdir()} == {"report.html", "report.md"}
    assert report([str(tmp_path / "sweep"), "--out", str(tmp_path / "o"), "--baseline", "CED"]).parent == tmp_path / "o"
    assert "4 runs, 2 arms" in capsys.readouterr().out


def test_torn_runs_are_left_out_with_one_line_each_on_screen_and_page(tmp_path, capsys):
    make_run(tmp_path / "a")
    (make_run(tmp_path / "b", "CED") / "summary.json").write_text("{")
    assert main([str(tmp_path)]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert "summary.json is torn" in (tmp_path / "report" / "report.html").read_text()


def test_incomparable_runs_are_named_on_the_screen(tmp_path, capsys):
    make_run(tmp_path / "a")
    make_run(tmp_path / "b", "CED", steps=9)
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().err.startswith("not comparable: CED is not comparable with no method: budget: 9 steps")


@pytest.mark.parametrize("wrong", [["missing"], ["."], ["torn"], ["good", "--baseline", "x"]])
def test_mistakes_end_with_one_line_and_status_2(tmp_path, monkeypatch, capsys, wrong):
    monkeypatch.chdir(tmp_path)
    if "torn" in wrong:
        (make_run(tmp_path / "torn") / "summary.json").unlink()
    if "good" in wrong:
        make_run(tmp_path / "good")
    assert main(wrong) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")


@pytest.mark.slow
def test_three_runs_of_three_seeds_in_under_a_minute(tmp_path):
    """A sweep over lists of methods, and its report."""
    command = [sys.executable, "-m", "mmcredit.fit", "-m", "callbacks=[],[ced],[pacg]", "seed=0,1,2", *SWEEP]
    subprocess.run([*command, f"hydra.sweep.dir={tmp_path}/sweep"], check=True, capture_output=True, cwd=tmp_path)
    start = time.perf_counter()
    command = [sys.executable, "-m", "mmcredit.report", f"{tmp_path}/sweep"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert time.perf_counter() - start < 60 and "9 runs, 3 arms" in done.stdout
    text = (tmp_path / "sweep" / "report" / "report.md").read_text()
    assert "Not comparable" not in text and "| metric | no method n=3 | CED n=3 | PACG n=3 |" in text
    assert json.loads((tmp_path / "sweep" / "0" / "provenance.json").read_text())["overrides"][0] == "callbacks=[]"
