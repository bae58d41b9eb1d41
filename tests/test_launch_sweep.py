"""Sweeps: list values, and a mistake in any job is said before the first one starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mmcredit.overrides import compose_error, jobs


def test_every_value_of_every_key_is_tried_once():
    assert jobs(["callbacks=[],[ced],[vppo,pacg]", "seed=0,1", "steps=3"]) == [
        ["callbacks=[]", "seed=0", "steps=3"],
        ["callbacks=[ced]", "seed=0", "steps=3"],
        ["callbacks=[vppo,pacg]", "seed=0", "steps=3"],
        ["callbacks=[]", "seed=1", "steps=3"],
    ]
    assert jobs(["steps=3", "optimizer.lr=interval(0,1)"]) == []
    assert jobs(["callbacks=[],[ced"]) == [["callbacks=[],[ced"]]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["callbacks=[],[cedd]"], "there is no callbacks/cedd"),
        (["callbacks=[ced],[]", "callbacks.pacg.margin=0.1"], "callbacks.pacg.margin"),
        (["seed=0,1", "callbacks=[],[ced"], "cannot read 'callbacks=[],[ced'"),
    ],
)
def test_a_wrong_job_is_found(overrides, words):
    problems = [problem for job in jobs(overrides) if (problem := compose_error("fit", job))]
    assert words in problems[0]


def test_settings_of_methods_that_only_some_jobs_have():
    assert not any(compose_error("fit", job) for job in jobs(["callbacks=[],[pacg]", "++callbacks.pacg.margin=0.1"]))


def test_the_command_line_says_it_in_one_line(tmp_path):
    command = [sys.executable, "-m", "mmcredit.fit", "-m", "callbacks=[],[cedd]"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2 and done.stderr.startswith("error: there is no callbacks/cedd")
    assert len(done.stderr.splitlines()) == 1 and not list(tmp_path.iterdir())
