"""The kit's comparisons of strings, oddities included."""

from __future__ import annotations

import pytest

from mmcredit.evaluation.kits.gsm8k_v import KitGsm8kV, kit_number
from mmcredit.evaluation.kits.text import KitBraces, KitDynaMath, KitExact, KitRowsColumns, KitScalar, KitSubstring
from mmcredit.evaluation.table import Question


def ask(answer: str, **meta: str) -> Question:
    return Question("1", "?", answer, meta)


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("FINAL ANSWER: 1,234", 1.0), ("$1,000.50", 1000.5), ("FINAL ANSWER: $1,000.50", 1.0),
        (r"\boxed{42}. Done in 3 steps.", 3.0), ("FINAL ANSWER: 42", 42.0), ("#### 7", 7.0), ("So\n\n12 dollars", 12.0),
        ("The answer is 3/4", 0.75), ("nothing", None), ("", None), ("5.3/4", 4.0), ("1/0", 0.0),
    ],
)  # fmt: skip
def test_gsm8k_v_numbers(response, value):
    assert kit_number(response) == value


def test_gsm8k_v_grades():
    assert KitGsm8kV()(ask("1"), "FINAL ANSWER: 1,234").correct
    assert not KitGsm8kV()(ask("1234"), "FINAL ANSWER: 1,234").correct
    assert KitGsm8kV()(ask("2"), "FINAL ANSWER: 2.0009").correct and not KitGsm8kV()(ask("2"), "2.002").correct
    assert not KitGsm8kV()(ask("two"), "2").correct and not KitGsm8kV()(ask("2"), "two").correct


def test_substring():
    assert KitSubstring()(ask("1"), "10").correct and not KitSubstring()(ask("3"), "three").correct
    assert KitSubstring(fold=True)(ask("Yes"), "yes").correct and not KitSubstring()(ask("Yes"), "yes").correct


def test_braces_rows_and_columns():
    assert KitBraces()(ask("3"), "{3} or {4}").correct and not KitBraces()(ask("3"), "{ 3 }").correct
    grid = KitRowsColumns()
    assert grid(ask("3,4"), "Rows={3} and columns={4}").correct and grid(ask("3,4"), "(3, 4)").correct
    assert not grid(ask("3,4"), "3 rows, 4 columns").correct and not grid(ask("three"), "(3, 4)").correct


def test_exact_and_scalars():
    assert KitExact()(ask("A"), " A ").correct and not KitExact()(ask("A"), "a").correct
    assert KitExact(fold=True)(ask("A"), "a").correct
    assert KitScalar("int")(ask("3"), " 3 ").correct and not KitScalar("int")(ask("3"), "3.0").correct
    assert KitScalar("float")(ask("1.2"), "1.20").correct and not KitScalar("float")(ask("1.2"), "It is 1.2").correct
    assert not KitScalar("str")(ask("[1, 2]"), "[1, 2]").correct and not KitScalar("int")(ask("3"), "9" * 9000).correct


@pytest.mark.parametrize(
    ("kind", "gold", "response", "right"),
    [
        ("float", "2.5", '{"solution": "x", "short answer": "2.5"}', True),
        ("float", "2.5", "2.5009 cm", True),
        ("float", "2.5", "2.502", False),
        ("float", "6.283", "2π", True),
        ("multiple choice", "B", '```json\n{"short answer": "(b)"}```', True),
        ("multiple choice", "B", "B", True),
        ("multiple choice", "B", "A or B", False),
        ("text", "two left", '{"short answer": "left"}', True),
        ("text", "two left", '{"short answer": ""}', True),
        ("text", "two left", "two left turns", False),
    ],
)
def test_dyna_math(kind, gold, response, right):
    assert KitDynaMath()(ask(gold, answer_type=kind), response).correct is right
