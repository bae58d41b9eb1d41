"""Columns made from others."""

from __future__ import annotations

import pytest

from mmcredit.evaluation.fields import Choices, Inside, Modulo, Several, Split
from mmcredit.evaluation.table import Question
from mmcredit.types import UserError


def ask(name: str = "1", **meta: str) -> Question:
    return Question(name, "?", "x", meta)


def test_hallusion_names():
    split = Split("index", "_", {"set_id": 3, "figure_id": 4, "question_id": 5})
    assert split(ask("VS_chart_0_1_2_3")).meta == {"set_id": "1", "figure_id": "2", "question_id": "3"}
    assert split(ask("other", index="VD_math_1_7_8_9")).meta["set_id"] == "7"
    with pytest.raises(UserError, match="'17' has not the pieces"):
        split(ask("17"))


def test_circular_groups():
    assert Modulo()(ask("2000017")).meta == {"g_index": "17"}
    assert Modulo()(ask("2000017", g_index="5")).meta == {"g_index": "5"}
    with pytest.raises(UserError, match="must be a whole number"):
        Modulo()(ask("x17"))


@pytest.mark.parametrize("cell", ["['a b', 'c']", '["a b", "c"]', "a b,c", "a b, c"])
def test_lists(cell):
    assert Several("skills")(ask(skills=cell)).meta["skills"] == "a b\nc"


def test_dictionaries_and_choices():
    meta = "{'split': 'testmini', 'subject': \"Plane's\", 'subfield': 'Angle'}"
    assert Inside("metadata", ["subject", "subfield", "absent"])(ask(metadata=meta)).meta["subject"] == "Plane's"
    found = Choices()(ask(choices="['3/11', 2]")).meta
    assert (found["A"], found["B"]) == ("3/11", "2")


@pytest.mark.parametrize("cell", ["", "nonsense", "__import__('os').getcwd()", "[" * 5000, "{1", "()"])
def test_nothing_is_evaluated(cell):
    for make in (Choices(), Inside("choices", ["a"])):
        assert make(ask(choices=cell)).meta == {"choices": cell}
