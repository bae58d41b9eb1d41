"""Runs that cannot be compared are named, with the reason."""

from __future__ import annotations

import pytest
from run_case import make_run

from mmcredit.reporting.arms import arms
from mmcredit.reporting.comparable import incomparable, remarks
from mmcredit.reporting.runs import load_run

DATA = {"train": {"size": 1, "fingerprint": "other"}, "val": {"size": 1, "fingerprint": "valval"}}
VAL = {"train": {"size": 1, "fingerprint": "traintrain"}, "val": {"size": 1, "fingerprint": "harder"}}


def found(tmp_path, **second):
    """Reasons between a run without a method and one of CED that differs in something more."""
    paths = [make_run(tmp_path / "a"), make_run(tmp_path / "b", "CED", **second)]
    both = arms([load_run(path) for path in paths])[0]
    return incomparable(both, both[0]), remarks(both)


def test_the_method_alone_is_a_fair_difference(tmp_path):
    assert found(tmp_path) == ({}, [])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"origin": {"data": DATA}}, "training data: other against traintrain"),
        ({"origin": {"data": VAL}}, "evaluation sets and sampling: val harder"),
        ({"rollout": {"temperature": 0.5}}, "evaluation sets and sampling: val valval (temperature 0.5"),
        ({"origin": {"model": {"path": "n", "fingerprint": None}}}, "model: n against ab"),
        ({"origin": {"template": "think"}}, "prompt template: think against cd"),
        ({"steps": 8}, "budget: 8 steps x 8 prompts x 4 responses against 4 steps x 8 prompts x 4 responses"),
        ({"rollout": {"group": 8}}, "budget: 4 steps x 8 prompts x 8 responses"),
        ({"data": {"batch_size": 2}}, "budget: 4 steps x 2 prompts x 4 responses"),
        ({"seed": 1}, "seeds: 1 against 0"),
    ],
)
def test_what_makes_a_comparison_unfair(tmp_path, changes, reason):
    unfair, _ = found(tmp_path, **changes)
    assert list(unfair) == ["CED"] and len(unfair["CED"]) == 1 and reason in unfair["CED"][0]


def test_a_run_without_provenance_is_not_taken_for_comparable(tmp_path):
    paths = [make_run(tmp_path / "a"), make_run(tmp_path / "b", "CED")]
    (paths[1] / "provenance.json").unlink()
    both = arms([load_run(path) for path in paths])[0]
    assert any("training data: unknown" in why for why in incomparable(both, both[0])["CED"])
    assert remarks(both)[-1] == "without provenance.json, so that data and model are unknown: b"
    (paths[0] / "provenance.json").unlink()
    both = arms([load_run(path) for path in paths])[0]
    assert incomparable(both, both[0]) == {} and "unknown: a, b" in remarks(both)[-1]


def test_an_arm_whose_own_runs_differ(tmp_path):
    paths = [make_run(tmp_path / "a", seed=0), make_run(tmp_path / "b", seed=1, origin={"data": DATA})]
    (arm,) = arms([load_run(path) for path in paths])[0]
    assert incomparable([arm], arm) == {
        "no method": ["training data: traintrain and other against traintrain and other"]
    }


def test_other_differences_are_remarks(tmp_path):
    unfair, notes = found(tmp_path, origin={"git": {"commit": "c2", "changed": ["x"]}})
    assert unfair == {} and notes == ["commit differs: c1 and c2", "uncommitted changes differs: False and True"]
