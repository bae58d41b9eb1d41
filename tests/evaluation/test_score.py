"""From predictions on disk to scores: both scorers, where they differ, what is refused."""

from __future__ import annotations

import json

import pytest

from mmcredit.evaluation.files import Folder, Prediction
from mmcredit.evaluation.graders.numbers import Number
from mmcredit.evaluation.kits.text import KitSubstring
from mmcredit.evaluation.metrics import Accuracy, OverSamples
from mmcredit.evaluation.score import Benchmark, Scorer, score
from mmcredit.evaluation.statistics import Bootstrap
from mmcredit.evaluation.table import Question
from mmcredit.types import UserError

METRICS = {"accuracy": Accuracy(by=["task"]), "samples": OverSamples()}
COUNT = Benchmark(
    "Count", {"fixed": Scorer(Number(), METRICS), "official": Scorer(KitSubstring(), METRICS, "a substring")}
)
SAID = {"a": ("1", ["10", "1"]), "b": ("3", ["There are three.", "3 | 3"]), "c": ("2", ["2", "nothing"])}


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path)
    folder.pin({"questions": 3, "model": "m"})
    for place, (name, (gold, said)) in enumerate(SAID.items()):
        rows = [Prediction(name, k, text, len(text), k == 0) for k, text in enumerate(said)]
        folder.add(place, [Question(name, "same prompt", gold, {"task": "count"})], rows)
    return folder


def test_both_scorers_and_where_they_differ(folder):
    report = score(folder, COUNT, "fixed", 2, Bootstrap(500))
    fixed, official = (report["metrics"][name] for name in ("fixed", "official"))
    assert (fixed["accuracy"]["value"], official["accuracy"]["value"]) == pytest.approx((4 / 6, 4 / 6))
    assert fixed["accuracy"]["std"] == pytest.approx(0)  # repetitions: b, c then a, b of three
    assert fixed["pass@2"]["value"] == 1 and fixed["worst@2"]["value"] == pytest.approx(1 / 3)
    assert report["headline"] == "accuracy" and report["scorer"] == "fixed"
    assert report["different"]["responses"] == 2
    assert [
        (e["id"], e["k"], e["fixed"]["correct"], e["official"]["correct"]) for e in report["different"]["examples"]
    ] == [
        ("a", 0, False, True),
        ("b", 0, True, False),
    ]
    assert report["unanswered"]["fixed"] == pytest.approx(1 / 6) and report["unfinished"] == 0.5
    assert json.loads((folder.path / "scores.json").read_text())["metrics"]["fixed"]["accuracy"] == fixed["accuracy"]
    graded = [json.loads(line) for line in (folder.path / "graded.jsonl").read_text().splitlines()]
    assert graded[0] == {
        "id": "a", "k": 0, "fixed": {"correct": False, "answer": "10"}, "official": {"correct": True, "answer": "10"},
    }  # fmt: skip
    text = (folder.path / "scores.md").read_text()
    assert (
        "| accuracy | 66.67 [" in text
        and "2 responses are graded differently" in text
        and "official: a substring" in text
    )


def test_mostly_without_an_answer_the_template_is_named(tmp_path):
    for place, (said, named) in enumerate([(["1", "none"], False), (["none", "none"], True)]):
        folder = Folder(tmp_path / str(place))
        folder.pin({"questions": 1, "model": "m"})
        rows = [Prediction("a", k, text, len(text), True) for k, text in enumerate(said)]
        folder.add(0, [Question("a", "prompt", "1", {"task": "count"})], rows)
        score(folder, COUNT, "fixed", 2, Bootstrap(10))
        assert ("template=..." in (folder.path / "scores.md").read_text()) == named


def test_questions_with_the_same_prompt_are_told_apart(folder):
    assert score(folder, COUNT, "fixed", 2, Bootstrap(10))["clusters"] == 3


def test_scoring_fewer_responses_takes_the_first(folder):
    report = score(folder, COUNT, "official", 1, Bootstrap(10))
    assert report["metrics"]["fixed"]["accuracy"]["value"] == pytest.approx(2 / 3)
    assert "pass@2" not in report["metrics"]["fixed"] and report["metrics"]["fixed"]["accuracy"]["std"] is None


def test_incomplete_predictions_are_refused(folder):
    with pytest.raises(UserError, match=r"6 responses, 9 are needed \(k=3, 3 questions\): run stage=generate"):
        score(folder, COUNT, "fixed", 3, Bootstrap(10))
    with pytest.raises(UserError, match=r"0 are needed .*no questions"):
        score(Folder(folder.path / "empty"), COUNT, "fixed", 3, Bootstrap(10))


def test_unknown_scorer(folder):
    with pytest.raises(UserError, match="scorer=other must be one of fixed, official for Count"):
        score(folder, COUNT, "other", 1, Bootstrap(10))


def test_nan_is_null_in_json(folder):
    from mmcredit.evaluation.score import _plain

    assert _plain({"a": [float("nan"), 1.0]}) == {"a": [None, 1.0]}
