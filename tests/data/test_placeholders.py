"""Where pictures stand in a question, and which questions cannot be asked."""

from __future__ import annotations

import random

import pytest

from mmcredit.data.gate import BadRow
from mmcredit.data.placeholders import in_order, split_question


@pytest.mark.parametrize(
    ("question", "images", "parts"),
    [
        ("what?", 0, ["what?"]),
        ("what?", 1, [0, "what?"]),
        ("what?", 3, [0, 1, 2, "what?"]),
        ("<image>what?", 1, [0, "what?"]),
        ("<image>\nwhat?", 1, [0, "what?"]),
        ("<image> <image>\n\nwhat?", 2, [0, 1, "what?"]),
        ("  <image>what?", 1, [0, "what?"]),
        ("see <image>. what?", 1, ["see ", 0, ". what?"]),
        ("what? <image>", 1, ["what? ", 0]),
        ("<image> or <image>?", 2, [0, "or ", 1, "?"]),
        ("a <image><image> b", 2, ["a ", 0, 1, " b"]),
        ("<image>", 1, [0]),
        ("<image 1> what?", 1, [0, "what?"]),
        ("<image1> what?", 1, [0, "what?"]),
        ("is <image 2> <image 1>?", 2, ["is ", 1, " ", 0, "?"]),
        ("is <image 1> like <image 2>, or <image 1> bigger?", 2, ["is ", 0, " like ", 1, ", or image 1 bigger?"]),
        ("<image 2> then <image 1>, see <image 2>", 2, [1, "then ", 0, ", see image 1"]),
        (" ".join(f"<image {n}>" for n in range(1, 13)) + " q", 12, [*range(12), "q"]),
        ("an <Image> tag, <images>, <image x>, < image >", 1, [0, "an <Image> tag, <images>, <image x>, < image >"]),
    ],
)
def test_places(question: str, images: int, parts: list[str | int]) -> None:
    assert split_question(question, images) == parts


@pytest.mark.parametrize(
    ("question", "images", "reason"),
    [
        ("a literal <image> in text", 0, "placeholder_count"),
        ("<image><image> what?", 1, "placeholder_count"),
        ("<image> what?", 2, "placeholder_count"),
        ("<image 1> what?", 2, "placeholder_count"),
        ("<image 2> what?", 1, "placeholder_count"),
        ("<image 0> what?", 1, "placeholder_count"),
        ("<image 1><image 3> what?", 2, "placeholder_count"),
        ("<image> and <image 2>", 2, "placeholder_mixed"),
    ],
)
def test_refused(question: str, images: int, reason: str) -> None:
    with pytest.raises(BadRow, match="the question has") as error:
        split_question(question, images)
    assert error.value.reason == reason


def test_pictures_are_put_in_the_order_of_the_question() -> None:
    assert in_order("is <image 2> above <image 1>?", "ab") == (
        "is <image> above <image>?",
        ("b", "a"),
    )
    assert in_order("what?", "ab") == ("what?", ("a", "b"))
    assert in_order("<image 3><image 1> <image 2>q", "abc") == ("<image><image><image>q", ("c", "a", "b"))


def test_a_question_in_order_says_the_same_again() -> None:
    """Random questions: the plain form splits into the same texts, its pictures are those that the first form named."""
    rng = random.Random(0)
    for _ in range(300):
        images = rng.randint(1, 5)
        named = rng.sample(range(images), images)
        pieces = [rng.choice(["", " ", "a", " b\n", "x "]) for _ in range(images + 1)]
        marks = [f"<image {n + 1}>" for n in named]
        question = "".join(text + mark for text, mark in zip(pieces, [*marks, ""], strict=True))
        plain, pictures = in_order(question, range(images))
        assert pictures == tuple(named)
        parts = split_question(question, images)
        assert [p for p in split_question(plain, images) if isinstance(p, str)] == [
            p for p in parts if isinstance(p, str)
        ]
        assert [p for p in split_question(plain, images) if isinstance(p, int)] == list(range(images))
