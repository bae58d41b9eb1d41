"""Rows on disk: torn lines, changed data, other settings."""

from __future__ import annotations

import pytest

from mmcredit.evaluation.files import Folder, Prediction, Rows
from mmcredit.evaluation.table import Question
from mmcredit.types import UserError


def question(name: str) -> Question:
    return Question(name, "how many?", "2", {"family": "counting"})


def predictions(name: str, count: int) -> list[Prediction]:
    return [Prediction(name, k, f"{name} {k} ü", 3, True) for k in range(count)]


@pytest.fixture
def folder(tmp_path):
    folder = Folder(tmp_path / "new" / "one")
    folder.add(0, [question("a"), question("b")], [*predictions("a", 2), *predictions("b", 2)])
    return folder


def test_what_was_added_is_read_again(folder):
    again = Folder(folder.path)
    assert again.questions == [question("a"), question("b")]
    assert again.predictions == folder.predictions
    assert not again.missing(0, 2, 2) and again.missing(0, 3, 2) and again.missing(0, 2, 3)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_removed_and_written_again(folder, cut):
    path = folder.path / "predictions.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    again = Folder(folder.path)
    assert again.missing(0, 2, 2) and ("b", 1) not in again.predictions
    again.add(0, [question("a"), question("b")], [*predictions("a", 2), *predictions("b", 2)])
    assert path.read_bytes() == whole


def test_a_damaged_line_elsewhere_is_named(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": 1}\n{"id"\n{"id": 3}\n')
    with pytest.raises(UserError, match=r"x\.jsonl:2 is damaged"):
        Rows(tmp_path / "x.jsonl")


def test_lone_surrogates_of_a_model_can_be_written(folder):
    folder.add(2, [question("c")], [Prediction("c", 0, "half \ud83d", 1, False)])
    assert Folder(folder.path).predictions["c", 0].prediction == "half ?"


def test_other_data_are_refused(folder):
    with pytest.raises(UserError, match="data are not those"):
        folder.add(0, [question("other")], predictions("other", 1))


@pytest.mark.parametrize("ids", [("a", "c"), ("c", "c")])
def test_two_questions_with_one_id_are_refused(folder, ids):
    with pytest.raises(UserError, match=f"two questions have the id '{ids[1] if ids[0] == 'c' else 'a'}'"):
        folder.add(2, [question(name) for name in ids], [])


def test_other_settings_are_refused(folder):
    folder.pin({"seed": 0, "model": "m"})
    folder.pin({"seed": 0, "model": "m"})
    with pytest.raises(UserError, match=r"begun with other settings \(seed, model\)"):
        folder.pin({"seed": 1, "model": "n"})
    assert Folder(folder.path).settings == {"seed": 0, "model": "m"}
