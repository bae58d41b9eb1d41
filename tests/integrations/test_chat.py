"""Messages of kits to answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

import mmcredit.models
from mmcredit.data.world.source import World
from mmcredit.integrations.chat import ChatModel, Request, ended, sample_of
from mmcredit.rollout.sampling import SamplingLaw

TINY = str(Path(mmcredit.models.__file__).parent / "tiny_qwen3vl")
GREEDY, SAMPLED = SamplingLaw(1, 0.0, 1.0, 24), SamplingLaw(1, 1.0, 1.0, 24)
ASK = "List what you see, then \\boxed{answer}.\nhow many objects are there?"


@pytest.fixture(scope="module")
def model() -> ChatModel:
    return ChatModel(TINY, batch=2)


def request(index: int, law: SamplingLaw, repetition: int = 0, **options) -> Request:
    return Request(f"world/{index}", (World("val", 9)[index].images[0], ASK), law, repetition, **options)


def test_answers_do_not_depend_on_company_or_order(model):
    asked = [request(0, GREEDY), request(1, SAMPLED), request(2, GREEDY), request(1, SAMPLED, 1), request(3, SAMPLED)]
    answers = model(asked)
    assert all("boxed" in text for text in answers) and answers[1] != answers[3]
    assert model(asked[::-1]) == answers[::-1]
    assert [model([r])[0] for r in asked] == answers
    assert model([]) == []


def test_pictures_are_seen_and_files_are_opened(model, tmp_path):
    red, blue = Image.new("RGB", (128, 128), "red"), World("val", 9)[4].images[0]
    blue.save(tmp_path / "x.png")
    parts = [(red, ASK), (blue, ASK), (tmp_path / "x.png", ASK)]
    plain, seen, opened = model([Request("q", p, SAMPLED) for p in parts])
    assert plain != seen == opened


def test_pictures_stand_between_texts():
    red, blue = Image.new("RGB", (32, 32), "red"), Image.new("RGB", (32, 32), "blue")
    sample = sample_of(Request("q", (red, "a <image> and <image 2>", blue, "b"), GREEDY))
    assert sample.question == "<image>a image and image 2<image>b"
    assert [p.getpixel((0, 0)) for p in sample.images] == [(255, 0, 0), (0, 0, 255)]


def test_interleaved_and_text_only_requests_are_answered(model):
    red = Image.new("RGB", (64, 64), "red")
    assert (
        len(model([Request("q", ("first", red, "then", red, "what?"), SAMPLED), Request("t", ("1+1?",), GREEDY)])) == 2
    )


def test_endings(model):
    assert ended("one. two\n\nthree", ["\n\n", ". "]) == "one" and ended("one", ["\n", ""]) == "one"
    whole = model([request(0, GREEDY)])[0]
    assert model([request(0, GREEDY, until=(" .",))])[0] == whole.split(" .")[0] != whole
