"""The kit's matching, oddities included. The expected values were produced by VLMEvalKit's own functions."""

from __future__ import annotations

import pytest

from mmcredit.evaluation.kits.choice import (
    KitAfterAnswer,
    KitChoice,
    KitLetters,
    KitOpen,
    KitYesNo,
    can_infer,
    without_punctuation,
)
from mmcredit.evaluation.table import Question

OPTIONS = {"A": "left", "B": "right", "C": "2 cm", "D": "None"}


@pytest.mark.parametrize(
    ("response", "option"),
    [
        ("B", "B"), ("(B)", "B"), ("B. right", "B"), ("I think option c", None), ("Both A and B", None),
        ("It is on the right", "B"), ("left or right", None), ("The answer is C, and not D nor A", "C"),
        ("B is what I would say here, all things considered", None), ("Cannot determine the answer", "Z"), ("Z", "Z"),
        (r"\boxed{B}", "B"), ("", None), ("a left turn " * 9, None),
    ],
)  # fmt: skip
def test_can_infer(response, option):
    assert can_infer(response, OPTIONS) == option


def test_choice_is_wrong_where_nothing_is_inferred():
    question = Question("1", "?", "B", OPTIONS)
    assert [KitChoice()(question, text).correct for text in ("B", "both A and B", "A")] == [True, False, False]
    assert KitChoice(gold="answer_option")(Question("1", "?", "right", {**OPTIONS, "answer_option": "B"}), "B").correct


def test_an_option_that_reads_none_does_not_exist_for_the_kit():
    assert not KitChoice()(Question("1", "?", "D", OPTIONS), "D").correct
    assert KitChoice()(Question("1", "?", "D", {**OPTIONS, "D": "none"}), "D").correct


def test_open_questions_are_multiple_choice_between_the_answer_and_others():
    ask = Question("1", "?", "24.32")
    assert [KitOpen()(ask, text).correct for text in ("24.32", "It is 24.32", "A", "24.3", "B")] == [True] * 3 + [
        False
    ] * 2


@pytest.mark.parametrize(
    ("response", "read"),
    [
        ("Yes", "Yes"),
        ("yes, it is", "Yes"),
        ("No. Yes? No", None),
        ("It is not known", None),
        ("no", "No"),
        ("Noo", None),
    ],
)
def test_yes_no(response, read):
    grade = KitYesNo()(Question("1", "?", "Yes"), response)
    assert (grade.answer, grade.correct) == (read, read == "Yes")


def test_punctuation():
    assert without_punctuation("yes,no") == "yes no" and without_punctuation("yes, no") == "yes no"
    assert without_punctuation("a/b 1,000") == "ab 1000" and without_punctuation("3.5 is. $5") == "3.5 is $5"


def test_after_answer():
    ask = Question("1", "?", "B")
    assert KitAfterAnswer()(ask, "<Answer>: B").correct and KitAfterAnswer()(ask, "Answer: Because").correct
    assert not KitAfterAnswer()(ask, "(B)").correct and not KitAfterAnswer()(ask, "").correct


def test_letters():
    ask = Question("1", "?", "A, D")
    assert [KitLetters()(ask, t).correct for t in ("DA", "AD", "A, D", "ad", "")] == [True, True, False, False, False]
