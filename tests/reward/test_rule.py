from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch

from mmcredit.data.answers import Kind
from mmcredit.data.templates import Template
from mmcredit.reward.rule import RuleReward
from mmcredit.reward.verdict import Outcome, Verdict
from mmcredit.reward.verifier import AnswerVerifier
from mmcredit.types import Grades, Prompts, Responses, Sample, Span

TEMPLATE = Template(instruction="", pattern=r"<think>.*</think>.*\\boxed\{.*\}\.?")
GOOD = r"<think>I see 7</think> It is \boxed{7}."


def cut(text: str, width: int) -> tuple[Span, ...]:
    """Tokens of ``width`` characters, then the end token."""
    return (*((i, min(i + width, len(text))) for i in range(0, len(text), width)), (len(text), len(text)))


def respond(texts: list[list[str]], width: int = 1) -> Responses:
    spans = tuple(tuple(cut(text, width) for text in group) for group in texts)
    length = max(len(tokens) for group in spans for tokens in group)
    mask = torch.tensor([[[i < len(tokens) for i in range(length)] for tokens in group] for group in spans])
    return Responses(mask.long(), mask, tuple(map(tuple, texts)), spans)


def grade(texts: list[list[str]], golds: list[str], width: int = 1, **weights: float) -> Grades:
    samples = tuple(Sample(str(i), (), "?", gold) for i, gold in enumerate(golds))
    rule = RuleReward(AnswerVerifier(), TEMPLATE, **weights)
    return rule(Prompts(samples, (), (), ()), respond(texts, width))


def test_each_response_is_graded_against_its_own_prompt() -> None:
    grades = grade([[GOOD, r"\boxed{7}", "seven"], [GOOD, r"\boxed{red}", r"\boxed{}"]], ["7", "red"])
    assert grades.correct_BG.tolist() == [[True, True, False], [False, True, False]]
    assert grades.format_BG.tolist() == [[True, False, False], [True, False, False]]
    assert grades.answers == (("7", "7", None), ("7", "red", None))
    assert grades.reward_BG.tolist() == [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]


def test_verifier_is_asked_with_gold_and_answer() -> None:
    asked = []

    class Prefix:
        def verify(self, gold: str, answer: str, choices: Sequence[str] = ()) -> Verdict:
            asked.append(choices)
            return Verdict(Outcome.RIGHT if gold.startswith(answer) else Outcome.TIMED_OUT, Kind.TEXT, "prefix")

    responses = respond([[r"\boxed{re}", r"\boxed{reddish}"]])
    grades = RuleReward(Prefix(), TEMPLATE)(
        Prompts((Sample("0", (), "which? A. red B. blue", "red"),), (), (), ()), responses
    )
    assert grades.correct_BG.tolist() == [[True, False]]
    assert grades.outcomes == (("right", "timed_out"),)
    assert asked == [("red", "blue")] * 2


def test_reward_is_the_weighted_sum() -> None:
    texts = [[GOOD, r"\boxed{7}", GOOD.replace("{7}", "{8}"), "nothing"]]
    grades = grade(texts, ["7"], accuracy=0.9, format=0.1)
    torch.testing.assert_close(grades.reward_BG, torch.tensor([[1.0, 0.9, 0.1, 0.0]]), rtol=0, atol=1e-7)
    assert grades.reward_BG.dtype == torch.float32
    assert grades.correct_BG.dtype == grades.format_BG.dtype == grades.answer_BGT.dtype == torch.bool


@pytest.mark.parametrize("text", ["", r"\boxed{}", r"\boxed{7", "7", "\x00", "{" * 1000, "Final answer:"])
@pytest.mark.parametrize("gold", ["7", "A", "", "."])
def test_response_without_answer_earns_nothing(gold: str, text: str) -> None:
    grades = grade([[text, text]], [gold], accuracy=1.0, format=0.0)
    assert grades.reward_BG.tolist() == [[0.0, 0.0]]
    assert grades.answers == ((None, None),)
    assert not grades.answer_BGT.any()


def test_empty_gold_is_matched_by_nothing() -> None:
    assert grade([[r"\boxed{7}", r"\boxed{.}"]], [""]).reward_BG.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("width", [1, 2, 3, 5, 100])
def test_answer_tokens_are_those_that_share_a_character_with_the_answer(width: int) -> None:
    rng = random.Random(width)
    texts = [
        [f"{'x' * rng.randint(0, 9)}\\boxed{{{'7' * rng.randint(1, 9)}}}{'y' * rng.randint(0, 9)}" for _ in range(4)]
        for _ in range(3)
    ]
    grades = grade(texts, ["7", "77", "777"], width)
    for b, group in enumerate(texts):
        for g, text in enumerate(group):
            sevens = {i for i, c in enumerate(text) if c == "7"}
            want = [bool(sevens & set(range(*span))) for span in cut(text, width)]
            padding = grades.answer_BGT.shape[2] - len(want)
            assert grades.answer_BGT[b, g].tolist() == want + [False] * padding
            assert any(want)


def test_answer_tokens_of_a_line_without_box() -> None:
    grades = grade([["Evidence: a cube\nFinal answer: red cube \nbye", "no"]], ["red cube"])
    text = "Evidence: a cube\nFinal answer: red cube \nbye"
    start = text.index("red")
    assert grades.answer_BGT[0, 0].nonzero()[:, 0].tolist() == list(range(start, start + len("red cube")))
    assert grades.correct_BG.tolist() == [[True, False]]


def test_answer_tokens_lie_inside_the_mask() -> None:
    responses = respond([[r"\boxed{7}", "x" * 30], [r"so \boxed{12345}", r"Final answer: 5"]], width=2)
    samples = tuple(Sample(str(i), (), "?", "5") for i in range(2))
    grades = RuleReward(AnswerVerifier(), TEMPLATE)(Prompts(samples, (), (), ()), responses)
    assert grades.answer_BGT.any(-1).tolist() == [[True, False], [True, True]]
    assert not (grades.answer_BGT & ~responses.mask_BGT).any()
