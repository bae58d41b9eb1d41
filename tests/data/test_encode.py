"""Pictures in their places, lengths by arithmetic, hints after interleaved pictures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from PIL import Image

from mmcredit.data.encode import Encoder
from mmcredit.data.gate import BadRow, Outline
from mmcredit.data.templates import Template
from mmcredit.types import Sample

RED, BLUE = Image.new("RGB", (64, 64), "red"), Image.new("RGB", (96, 64), "blue")


@pytest.fixture(scope="module")
def encoder(processor: Any) -> Encoder:
    return Encoder(processor, Template("Think.", ".*"))


def shown(encoder: Encoder, question: str, *images: Image.Image) -> str:
    """The user's turn as the model reads it; ``[n]`` stands for a picture of n tokens."""
    text = encoder.processor.tokenizer.decode(encoder([Sample("1", images, question, "a")]).ids[0])
    turn = text.split("<|im_start|>user\n")[1].split("<|im_end|>")[0]
    pieces = turn.split("<|vision_start|>")
    return pieces[0] + "".join(
        f"[{piece.count('<|image_pad|>')}]{piece.split('<|vision_end|>')[1]}" for piece in pieces[1:]
    )


@pytest.mark.parametrize(
    ("question", "images", "turn"),
    [
        ("what?", (RED,), "[4]Think.\nwhat?"),
        ("<image>\nwhat?", (RED,), "[4]Think.\nwhat?"),
        ("what?", (RED, BLUE), "[4][6]Think.\nwhat?"),
        ("is <image> like <image>?", (RED, BLUE), "Think.\nis [4] like [6]?"),
        ("<image> or <image>?", (BLUE, RED), "Think.\n[6]or [4]?"),
        ("what? <image>", (RED,), "Think.\nwhat? [4]"),
        ("what?", (), "Think.\nwhat?"),
    ],
)
def test_pictures_stand_where_the_question_says(
    encoder: Encoder, question: str, images: tuple[Image.Image, ...], turn: str
) -> None:
    assert shown(encoder, question, *images) == turn


def test_without_an_instruction_there_is_no_empty_line(processor: Any) -> None:
    plain = Encoder(processor, Template("", ".*"))
    assert shown(plain, "<image> or <image>?", RED, BLUE) == "[4]or [6]?"


def test_pixels_come_in_the_order_of_the_pictures(encoder: Encoder) -> None:
    prompts = encoder([Sample("1", (RED, BLUE), "is <image> like <image>?", "a")])
    assert prompts.grids[0] is not None and prompts.pixels[0] is not None
    assert prompts.grids[0].tolist() == [[1, 4, 4], [1, 4, 6]]
    red, blue = prompts.pixels[0].split([16, 24])
    assert torch.equal(red, encoder.pixels([RED])) and torch.equal(blue, encoder.pixels([BLUE]))


@pytest.mark.parametrize(
    ("question", "images", "reason"),
    [
        ("<image><image>?", (RED,), "placeholder_count"),
        ("a literal <image>", (), "placeholder_count"),
        ("<image 2> <image 1>", (RED, BLUE), "placeholder_order"),
        ("an <|image_pad|> in text", (RED,), "control_token"),
    ],
)
def test_a_question_that_does_not_fit_its_pictures(
    encoder: Encoder, question: str, images: tuple[Image.Image, ...], reason: str
) -> None:
    for make in (
        lambda: encoder([Sample("1", images, question, "a")]),
        lambda: encoder.length(Outline("1", question, tuple(i.size for i in images))),
    ):
        with pytest.raises(BadRow) as error:
            make()
        assert error.value.reason == reason


@pytest.mark.parametrize(
    "question", ["what?", "<image><image>what?", "is <image> like <image>?", "what is this? <image> <image>"]
)
@pytest.mark.parametrize("hint", ["candidate: 3", "", "see <image> é", "two\nlines"])
def test_hint_follows_the_question_wherever_its_pictures_stand(encoder: Encoder, question: str, hint: str) -> None:
    """The encoding of the hinted question, whose placeholders are the question's own."""
    sample = Sample("1", (RED, BLUE), question, "a")
    (ids,) = encoder([sample]).ids
    marked = replace(sample, question=f"{question}\n{hint.replace('<image>', '<IMAGE>')}")
    expected = encoder.processor.tokenizer.decode(encoder([marked]).ids[0]).replace("<IMAGE>", "<image>")
    hinted = encoder.hinted(sample, ids, hint)
    assert encoder.processor.tokenizer.decode(hinted) == expected
    if "<image>" not in hint:
        assert torch.equal(hinted, encoder([marked]).ids[0])
    last = int(torch.where(ids == encoder.processor.image_token_id)[0].max())
    assert torch.equal(hinted[: last + 1], ids[: last + 1])


def test_tokens_for_pixels_are_left_out_of_hints(encoder: Encoder) -> None:
    sample = Sample("1", (RED,), "what?", "a")
    (ids,) = encoder([sample]).ids
    pad = encoder.processor.image_token_id
    hinted = encoder.hinted(sample, ids, f"it is {encoder.processor.image_token} red")
    assert (hinted == pad).sum() == (ids == pad).sum()


def test_control_tokens_are_refused_before_training(encoder: Encoder) -> None:
    for token in ("<|im_end|>", "<|vision_start|>", "<|endoftext|>"):
        for measure in (encoder.length, encoder.longest):
            with pytest.raises(BadRow, match="control token"):
                measure(Outline("1", f"say {token}"))
