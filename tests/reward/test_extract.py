from __future__ import annotations

import random

import pytest

from mmcredit.reward.extract import MAX_ANSWER, Extractor, final_answer
from mmcredit.types import UserError


def answer_of(text: str) -> str | None:
    span = final_answer(text)
    return None if span is None else text[slice(*span)]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{7}", "7"),
        (r"so it is \boxed{7}.", "7"),
        (r"\boxed {7}", "7"),
        ("\\boxed\n{7}", "7"),
        (r"\boxed{ 7 }", "7"),
        (r"First \boxed{3}, so finally \boxed{7}", "7"),
        (r"\boxed{3}\boxed{7}\boxed{", "7"),  # the last complete one
        (r"\boxed{7} and \boxed{8", "7"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{{7}}", "{7}"),
        (r"\boxed{\boxed{7}}", "7"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\{1,2}", r"\{1,2"),  # escaped braces open and close nothing
        (r"\boxed{1\}2}", r"1\}2"),
        (r"\boxed{a\\}", r"a\\"),  # an escaped backslash, then the closing brace
        (r"\boxed{x} }}}}", "x"),
        (r"\boxed{un café}", "un café"),
        ("\\boxed{two\nlines}", "two\nlines"),
        (r"\boxed{<|vision_start|>}", "<|vision_start|>"),
        ("\\boxed{a\x00b}", "a\x00b"),
        (r"$\boxed{5\text{ cm}}$", r"5\text{ cm}"),
    ],
)
def test_last_complete_box(text: str, answer: str) -> None:
    assert answer_of(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Final answer: 7", "7"),
        ("final answer: red cube", "red cube"),
        ("FINAL ANSWER: Yes", "Yes"),
        ("Answer: 7", "7"),
        ("answer : 7", "7"),
        ("Final answer：7", "7"),
        ("Final answer： 两个", "两个"),
        ("  \tFinal answer:\t7  \t", "7"),
        ("Evidence: a red cube\nFinal answer: 7\n", "7"),
        ("Final answer: 3\nFinal answer: 7", "7"),
        ("Final answer: 3\nwait\nAnswer: 7\nbye", "7"),
        ("Final answer: 7\r\nbye", "7"),
        ("Final answer: 7.", "7"),
        ("**Final answer:** 7", "7"),
        ("### **Answer: 7**", "7"),
        ("Final answer: top left .\n", "top left"),
        ("Final answer: 1.5;", "1.5"),
        ("Final answer: 两个。", "两个"),
        ("Final answer: 5!", "5!"),
        ("Final answer: a: b", "a: b"),
        (r"Final answer: \boxed{7}", "7"),
        ("Final answer: 3\nhence \\boxed{7}", "7"),  # a box comes before any line
        ("\\boxed{7}\nFinal answer: 3", "7"),
        ("\\boxed{7\nFinal answer: 3", "3"),  # the box is not complete
    ],
)
def test_last_final_answer_line(text: str, answer: str) -> None:
    assert answer_of(text) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "The answer is 7",
        "The final answer: 7 is in a sentence",
        "my Final answer: 7",
        "Final answer:",
        "Final answer:   ",
        "Final answer:\n7",
        "Final answer: .",
        "Final answer 7",
        "Final answers: 7",
        r"The answer is \boxed{}.",
        r"\boxed{   }",
        r"\boxed{7} no, \boxed{}",  # the last complete box is empty
        r"\boxed{7",
        r"\boxed{{7}",
        r"\boxed{7\}",
        "\\boxed{7\\",
        r"\boxed 7",
        r"Final answer: \boxed{7",
        r"\fbox{7}",
        r"boxed{7}",
        "<answer>6</answer>",
        "<think>maybe A</think>The answer is B",
    ],
)
def test_no_final_answer(text: str) -> None:
    assert final_answer(text) is None


@pytest.mark.parametrize("form", [r"\boxed{%s}", "Final answer: %s", "Final answer： %s\n"])
def test_longest_answer(form: str) -> None:
    longest = "x" * MAX_ANSWER
    assert answer_of(form % longest) == longest
    assert final_answer(form % (longest + "x")) is None


def test_overlong_box_is_not_complete() -> None:
    assert answer_of(r"\boxed{7} then \boxed{" + "8" * (MAX_ANSWER + 1) + "}") == "7"


@pytest.mark.parametrize("seed", range(5))
def test_planted_box_is_found_in_noise(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        noise = ["".join(rng.choices(["a ", "}", "{", "\\n", "\n", "\\boxed", "\\boxed{", "Final answer: "], k=8))]
        noise += ["".join(rng.choices(["a ", "}", "\\n", "\n", "Final answer: 9\n", "\\boxed ."], k=8))]
        answer = "".join(rng.choices(["7", " b", r"\}", r"\{", "{c}", "é"], k=4)).strip()
        before = noise[0] + " "
        span = final_answer(f"{before}\\boxed{{{answer}}} {noise[1]}")
        assert span == (len(before) + 7, len(before) + 7 + len(answer))


ADVERSARIAL = [
    "{" * 100_000,
    "}" * 100_000,
    "\\boxed{" + "{" * 100_000,
    "\\boxed{" + "{" * 50_000 + "}" * 50_000,
    "\\boxed{" * 5_000,
    "\\boxed" + " " * 100_000,
    "\\" * 100_000,
    "\\boxed{" + "\\" * 100_001,
    "Final answer: x" + " " * 100_000 + "y",
    "Final answer:" + " " * 100_000,
    "Final answer:" * 10_000,
    "answer:\n" * 20_000,
    " " * 100_000 + "answer",
    "\x00" * 100_000,
]


@pytest.mark.parametrize("text", ADVERSARIAL, ids=lambda t: f"{t[:14]!r}x{len(t)}")
def test_adversarial_text_holds_no_answer(text: str) -> None:
    assert final_answer(text) is None


def test_answer_after_adversarial_text_is_found() -> None:
    for text in ADVERSARIAL:
        assert answer_of(text + "\n\\boxed{7}") == "7"


@pytest.mark.parametrize("seed", range(5))
def test_random_text_gives_a_trimmed_span_or_nothing(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [
        "\\boxed{",
        "\\boxed",
        "{",
        "}",
        "\\",
        "\\}",
        " ",
        "\n",
        "\r",
        "Final answer:",
        "answer：",
        "7",
        "a",
        "\x00",
    ]
    found = 0
    for _ in range(400):
        text = "".join(rng.choices(pieces, k=rng.randint(1, 25)))
        if (span := final_answer(text)) is None:
            continue
        found += 1
        answer = text[slice(*span)]
        assert 0 <= span[0] < span[1] <= len(text)
        assert answer == answer.strip()
    assert found > 20


@pytest.mark.parametrize(
    ("options", "text", "answer"),
    [
        ({"fallback": "answer_tag"}, "<answer>6</answer>", "6"),
        ({"fallback": "answer_tag"}, "<answer>5</answer> no <answer> 6 </answer> <answer>7", "6"),
        ({"fallback": "answer_tag"}, r"<answer>\boxed{6}</answer>", "6"),
        ({"fallback": "answer_tag"}, "<answer></answer>", None),
        ({"fallback": "answer_tag"}, "Final answer: 7", None),
        ({"fallback": "last_number"}, "first 3, then 1,234.5.", "1,234.5"),
        ({"fallback": "last_number"}, "it is -3/4", "-3/4"),
        ({"fallback": "last_number"}, "x2 and 50%", "50%"),
        ({"fallback": "last_number"}, "none", None),
        ({"fallback": "off"}, "Final answer: 7", None),
        ({"fallback": "off"}, r"\boxed{7}", "7"),
        ({"fbox": True}, r"\fbox{7}", "7"),
        ({"fbox": True}, r"\boxed{6} \fbox{7}", "7"),
        ({"braceless": True}, r"\boxed 7.", "7"),
        ({"braceless": True}, r"\boxed 7 and \boxed{8}", "8"),
        ({"braceless": True}, r"\boxed{8", None),
    ],
)
def test_other_ways_to_answer(options: dict[str, object], text: str, answer: str | None) -> None:
    span = Extractor(**options)(text)  # type: ignore[arg-type]
    assert (None if span is None else text[slice(*span)]) == answer


def test_an_unknown_fallback_is_refused() -> None:
    with pytest.raises(UserError, match="final_answer_line, answer_tag, last_number, off"):
        Extractor("guess")


@pytest.mark.parametrize("fallback", ["answer_tag", "last_number"])
def test_fallbacks_take_no_time_with_long_texts(fallback: str) -> None:
    for text in ("<answer>" * 20_000, "1," * 50_000, "9" * 100_000, "<answer>" + "x" * 100_000 + "</answer>"):
        assert Extractor(fallback)(text) is None or fallback == "last_number"
