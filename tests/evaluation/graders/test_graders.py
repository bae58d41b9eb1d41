"""What the right graders read, and what they leave unread."""

from __future__ import annotations

import threading

import pytest

from mmcredit.evaluation.graders.base import ByField, Free, Mixed
from mmcredit.evaluation.graders.numbers import Number, RowsColumns, Symbol
from mmcredit.evaluation.graders.options import Choice, Letters, YesNo
from mmcredit.evaluation.reading import number, options_of
from mmcredit.evaluation.table import Question
from mmcredit.reward.verifier import AnswerVerifier

OPTIONS = {"A": "left", "B": "right", "C": "2 cm", "D": "None"}


def ask(answer: str, **meta: str) -> Question:
    return Question("1", "?", answer, meta)


@pytest.mark.parametrize(
    ("response", "read"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("B.", "B"),
        ("B. right", "B"),
        ("**B**", "B"),
        ("right", "B"),
        ("Right.", "B"),
        (r"\boxed{B}", "B"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{b. right}", "B"),
        (r"A or B? \boxed{A} no, \boxed{B}", "B"),
        ("First A, then C.\nFinal answer: (B)", "B"),
        ("I think the answer is B because A is wrong", "B"),
        ("The correct answer is **B**. Here is why: D is not.", "B"),
        ("the answer is right.", "B"),
        ("<think>A? the answer is A</think>\nB", "B"),
        ("none", "D"),
        ("A is wrong and so is B", None),
        ("Both A and B", None),
        ("I don't know", None),
        ("", None),
        ("Z", None),
        (r"\boxed{E}", None),
        ("A " * 200, None),
    ],
)
def test_choice(response, read):
    for gold in ("B", "right"):
        grade = Choice()(ask(gold, **OPTIONS), response)
        assert (grade.answer, grade.correct) == (read, read == "B")


def test_choice_by_another_column_and_without_listed_options():
    assert Choice(gold="answer_option")(ask("right", answer_option="B", **OPTIONS), "B").correct
    assert Choice()(ask("E"), r"\boxed{E}").correct and not Choice(letters="ABCD")(ask("E"), r"\boxed{E}").correct
    assert not Choice()(ask(""), "").correct
    assert Choice()(ask("A", A="same", B="same"), "same").answer is None


def test_options_come_from_columns_or_lines():
    assert options_of(ask("A", A="x", B="y", D="gap")) == {"A": "x", "B": "y", "D": "gap"}
    assert options_of(ask("A", choices="x\ny\nNone")) == {"A": "x", "B": "y", "C": "None"}
    assert options_of(ask("A")) == {}


@pytest.mark.parametrize(
    ("response", "right"),
    [
        ("A, D", True), ("D, A", True), ("AD", True), (r"\boxed{A, D}", True), (r"\boxed{A and D}", True),
        (r"\boxed{\text{A}, \text{D}}", True), ("The answer is A and D.", True), ("Final answer: (A), (D)", True),
        ("A", False), ("A, B, D", False), (r"\boxed{ABCD}", False), ("", False), ("A DOG", False), ("a dog", False),
    ],
)  # fmt: skip
def test_letters(response, right):
    assert Letters()(ask("A, D"), response).correct is right


@pytest.mark.parametrize("response", ["B", "b", "(b)", r"\boxed{B}", "The answer is B."])
def test_single_letter_of_a_set(response):
    assert Letters()(ask("B"), response).correct and not Letters()(ask("A, B"), response).correct


@pytest.mark.parametrize(
    ("response", "read"),
    [
        ("Yes", "yes"), ("yes.", "yes"), ("Yes, there is no other.", "yes"), ("No, not at all", "no"),
        (r"It could be yes. \boxed{No}", "no"), ("The figure shows two. So no.", "no"), ("Final answer: yes", "yes"),
        ("It is yes or no", None), ("Unclear", None), ("", None), ("Nothing is known", None),
    ],
)  # fmt: skip
def test_yes_no(response, read):
    grade = YesNo()(ask("Yes"), response)
    assert (grade.answer, grade.correct) == (read, read == "yes")


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("FINAL ANSWER: 1,234", "1234"), ("FINAL ANSWER: $1,234.50", "2469/2"), (r"\boxed{42}. Done in 3 steps.", "42"),
        ("There are 3.", "3"), ("3", "3"), ("three", "3"), ("There are seventeen of them", "17"), ("-5", "-5"),
        ("−5", "-5"), ("10-5 = 5", "5"), ("1/2", "1/2"), ("{3}", "3"), ("0.50", "1/2"), (r"\boxed{3{,}000}", "3000"),
        ("2 of this one", "2"), ("none", None), ("", None), ("x2", None), ("1" * 5000, None), (".", None),
        ("5 cm", "5"), ("1/0", None),
    ],
)  # fmt: skip
def test_number(response, value):
    grade = Number()(ask(value or "7"), response)
    assert (grade.answer, grade.correct) == (value, value is not None)


def test_number_tolerance_is_exact_at_its_border():
    assert Number(0.001)(ask("1"), "1.001").correct and not Number(0.001)(ask("1"), "1.0011").correct
    assert not Number()(ask("10"), "1").correct and not Number()(ask("1"), "10").correct
    assert not Number(0.5)(ask("no number"), "1").correct and number("no number") is None


@pytest.mark.parametrize(
    ("response", "right"),
    [
        ("rows={4} columns={5}", True), ("columns={5} rows={4}", True), ("4 rows and 5 columns", True),
        ("(4, 5)", True),
        ("5 columns, 4 rows", True), ("{4}{5}", True), ("The grid has 4 rows and 5 columns.", True),
        (r"\boxed{(4,5)}", True), ("rows={5} columns={4}", False), ("(5, 4)", False), ("45", False), ("", False),
    ],
)  # fmt: skip
def test_rows_and_columns(response, right):
    assert RowsColumns()(ask("4,5"), response).correct is right


@pytest.mark.parametrize(
    ("response", "right"),
    [("{r}", True), ("R", True), (r"\boxed{r}", True), ('The letter "r" is circled.', True),
     ("The circled letter is r", False),
     ("{s}", False), ("", False), ("{r}{s}", False)],
)  # fmt: skip
def test_symbol(response, right):
    assert Symbol()(ask("r"), response).correct is right


def test_free_and_by_kind():
    free = Free(AnswerVerifier())
    assert free(ask("12"), r"so \boxed{12}").correct
    assert free(ask("12"), "The answer is 12.").correct and free(ask("12"), "12").correct
    assert free(ask("12"), "It is twelve or thirteen\nperhaps 12").answer is None
    assert free(ask("12"), "long " * 30).answer is None
    grader = ByField("kind", {"n": Number(), "c": Choice()}, free)
    assert grader(ask("2", kind="n"), "I see 2.").correct
    assert not grader(ask("2", kind="?"), "I see 2.").correct
    mixed = Mixed(Choice(), free)
    assert mixed(ask("B", **OPTIONS), "right").correct and mixed(ask("12"), "12").correct


def test_nothing_that_a_model_says_raises_or_hangs():
    graders = [Choice(), Free(AnswerVerifier()), Letters(), YesNo(), Number(), RowsColumns(), Symbol()]
    nasty = ["\0", "\\boxed{" * 300, "{" * 9000, "9" * 9000, "9^{9^9}", "answer is " * 3000, "a, " * 5000, "\ud800",
             "1," * 4000, "answer is **" * 3000, "row" * 3000, "<think>" * 2000, " " * 20000, "A" * 9000]  # fmt: skip

    def run():
        for grader in graders:
            for text in nasty:
                assert not grader(ask("77"), text).correct

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(20)
    assert not worker.is_alive()
