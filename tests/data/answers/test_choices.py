from __future__ import annotations

import pytest

from mmcredit.data.answers import choices, options
from mmcredit.types import Sample

PETS = ("a cat", "a dog", "a fish")


@pytest.mark.parametrize(
    "question",
    [
        "What is it?\nA. a cat\nB. a dog\nC. a fish",
        "What is it?\n(A) a cat\n(B) a dog\n(C) a fish\n",
        "What is it? (A) a cat (B) a dog (C) a fish",
        "What is it? A: a cat, B: a dog, C: a fish",
        "What is it?\nA) a cat\nB) a dog\nC) a fish",
        "What is it? A. a cat; B. a dog; C. a fish.\nAnswer with the letter.".replace("fish.", "fish"),
        "What is it? Choices:\nA：a cat\nB：a dog\nC：a fish",
        "这是什么？A．a cat B．a dog C．a fish",
        "What is it?\n[A] a cat\n[B] a dog\n[C] a fish",
        "What is it?\nA a cat\nB a dog\nC a fish",
        "Point A. is on B. What is it?\n(A) a cat (B) a dog (C) a fish",
    ],
)
def test_styles(question: str) -> None:
    assert choices(question) == PETS


def test_ten_options_and_formulas() -> None:
    texts = tuple(rf"\frac{{{n}}}{{7}}" for n in range(10))
    question = "Which? " + " ".join(f"({letter}) {text}" for letter, text in zip("ABCDEFGHIJ", texts, strict=True))
    assert choices(question) == texts


@pytest.mark.parametrize(
    "question",
    [
        "",
        "How many?",
        "A. is alone",
        "B. no C. beginning",
        "Is angle A larger than B?",
        "A. x C. z",
        "In triangle ABC, AB: 3",
    ],
)
def test_no_options(question: str) -> None:
    assert choices(question) == ()


def test_given_options_come_before_those_in_the_question() -> None:
    question = "Which? A. red B. blue"
    assert options(Sample("0", (), question, "A")) == ("red", "blue")
    assert options(Sample("0", (), question, "A", meta={"choices": "12\n13\n14"})) == ("12", "13", "14")
    assert options(Sample("0", (), question, "A", meta={"choices": "A. 12\nB. 13"})) == ("12", "13")
    assert options(Sample("0", (), question, "A", meta={"choices": ""})) == ()


def test_long_questions_take_no_time() -> None:
    assert choices("A. " * 30_000) == () and choices("(A) x (B) " * 5_000) != ()
