"""Prompts are measured before training: too long is refused with numbers, and later failures have stand-ins."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from real_files import half, saved, scene

from mmcredit.data.encode import Encoder
from mmcredit.data.gate import BadRow, GateReport, Outline
from mmcredit.data.prompt_gate import Admitted, PromptGate
from mmcredit.data.sources.jsonl import Jsonl
from mmcredit.data.templates import Template
from mmcredit.data.world.source import World
from mmcredit.types import Sample, UserError


@pytest.fixture(scope="module")
def encoder(processor: Any) -> Encoder:
    return Encoder(processor, Template("Think.", ".*"))


class Listed:
    """A source over samples; those whose picture is None fail when they are read."""

    def __init__(self, *samples: Sample, failing: tuple[int, ...] = ()) -> None:
        self.samples, self.failing, self.decoded = samples, failing, list[int]()

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Sample:
        self.decoded.append(index)
        if index in self.failing:
            raise BadRow("image_truncated", "image x cannot be read: it is cut short")
        return self.samples[index]


class Outlined(Listed):
    def outline(self, index: int) -> Outline:
        sample = self.samples[index]
        return Outline(sample.id, sample.question, tuple(image.size for image in sample.images))


def sample(name: str, question: str = "what?", *sizes: tuple[int, int]) -> Sample:
    return Sample(name, tuple(Image.new("RGB", size) for size in sizes), question, "a")


LONG = sample("long", "what? " * 100, (128, 128), (64, 96))


def lengths(encoder: Encoder, found: Sample) -> int:
    return len(encoder([found]).ids[0])


@pytest.mark.parametrize("kind", [Listed, Outlined])
def test_a_long_prompt_is_refused_with_id_and_numbers(encoder: Encoder, kind: type[Listed]) -> None:
    total = lengths(encoder, LONG)
    with pytest.raises(UserError) as error:
        PromptGate(encoder, 100)("train", kind(sample("a"), LONG))
    message = str(error.value)
    for part in (
        "'long'",
        f"{total} tokens",
        "22 of them of images (128x128, 64x96)",
        "max_prompt_tokens=100",
        ": sample 1:",
    ):
        assert part in message
    assert "data.on_bad_row=skip" in message and "\n" not in message


def test_two_images_of_64_tokens_above_a_limit_of_100(encoder: Encoder) -> None:
    """Placeholders are never cut: the whole prompt is refused."""
    two = sample("two", "what?", (256, 256), (256, 256))
    with pytest.raises(UserError, match="128 of them of images"):
        PromptGate(encoder, 100)("train", Listed(two))


def test_the_limit_is_exact(encoder: Encoder) -> None:
    total = lengths(encoder, LONG)
    assert len(PromptGate(encoder, total)("train", Listed(LONG))) == 1
    with pytest.raises(UserError):
        PromptGate(encoder, total - 1)("train", Listed(LONG))


def test_long_prompts_are_left_out_and_counted(encoder: Encoder, caplog: pytest.LogCaptureFixture) -> None:
    source = Outlined(sample("a"), LONG, sample("b", "what?", (64, 64)), sample("a"), sample("c", "<image>?"))
    with caplog.at_level(logging.WARNING):
        passed = PromptGate(encoder, 100, "skip")("train", source)
    assert [s.id for s in passed] == ["a", "b"]
    assert passed.report.dropped == {"prompt_too_long": 1, "duplicate_id": 1, "placeholder_count": 1}
    assert (passed.report.read, passed.report.kept) == (5, 2)
    assert "3 samples left out by the prompt gate" in caplog.text
    assert source.decoded == [0, 2], "nothing was decoded to measure"


def test_counts_go_on_in_the_source_s_own_report(encoder: Encoder) -> None:
    source = Outlined(sample("a"), LONG)
    source.report = GateReport("corpus", read=5, kept=2)  # type: ignore[attr-defined]
    source.report.dropped["json"] = 3  # type: ignore[attr-defined]
    passed = PromptGate(encoder, 100, "skip")("train", source)
    assert passed.report is source.report  # type: ignore[attr-defined]
    assert passed.report.dropped == {"json": 3, "prompt_too_long": 1}
    assert (passed.report.read, passed.report.kept) == (5, 1)


def test_gold_answers_that_nothing_equals_are_left_out(encoder: Encoder) -> None:
    """Never trained with reward 0, or 1, for every response; kinds of the others are counted."""
    golds = ["2", "3.5", "A", "yes", "nan", "None", "$$", "top left", "\\boxed{}"]
    source = Listed(*(Sample(str(i), (), "what?", gold) for i, gold in enumerate(golds)))
    passed = PromptGate(encoder, on_bad_row="skip")("train", source)
    assert [s.answer for s in passed] == ["2", "3.5", "A", "yes", "top left"]
    assert passed.report.dropped == {"gold_unparsable": 4}
    assert passed.report.kinds == {"number": 2, "letter": 1, "yes_no": 1, "text": 1}
    with pytest.raises(UserError, match="sample '4': nothing equals the answer 'nan'"):
        PromptGate(encoder)("train", source)


def test_kinds_that_the_source_counted_stay(encoder: Encoder) -> None:
    source = Listed(sample("a"))
    source.report = GateReport("corpus", read=1, kept=1)  # type: ignore[attr-defined]
    source.report.kinds["count"] = 7  # type: ignore[attr-defined]
    assert PromptGate(encoder)("train", source).report.kinds == {"count": 7}


def test_a_computed_source_is_probed_not_read(encoder: Encoder) -> None:
    world = World("train", 10**6)
    passed = PromptGate(encoder)("train", world)
    assert len(passed) == 10**6 and passed[999_999].id == world[999_999].id
    assert 30 < passed.longest < 1000
    with pytest.raises(UserError, match="max_prompt_tokens=20"):
        PromptGate(encoder, 20)("train", world)


def jsonl(folder: Path, count: int) -> Path:
    rows = []
    for i in range(count):
        (folder / f"{i}.png").write_bytes(saved(scene((60 + i, 40)), "PNG"))
        rows.append(json.dumps({"id": str(i), "image": f"{i}.png", "question": "what?", "answer": "a"}))
    (folder / "rows.jsonl").write_text("\n".join(rows))
    return folder / "rows.jsonl"


def test_a_picture_that_breaks_in_mid_run(encoder: Encoder, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Under ``skip`` the same other sample stands in each time, counted; under ``raise`` the run ends with one line."""
    path = jsonl(tmp_path, 6)
    passed = {
        policy: PromptGate(encoder, on_bad_row=policy)("train", Jsonl(path, on_bad_row=policy))
        for policy in ("skip", "raise")
    }
    (tmp_path / "2.png").write_bytes(half((tmp_path / "2.png").read_bytes()))
    (tmp_path / "3.png").unlink()
    with caplog.at_level(logging.WARNING):
        seen = [[passed["skip"][i].id for i in range(6)] for _ in range(2)]
    assert seen[0] == seen[1] and [seen[0][i] for i in (0, 1, 4, 5)] == ["0", "1", "4", "5"]
    assert set(seen[0]) == {"0", "1", "4", "5"}
    assert passed["skip"].stand_ins == {"image_truncated": 2, "image_missing": 2}
    assert "sample 2 cannot be read any more: image 2.png cannot be read: it is cut short" in caplog.text
    with pytest.raises(UserError, match=r"sample 2 cannot be read any more.*on_bad_row=skip lets others stand in"):
        passed["raise"][2]


def test_when_nothing_can_be_read_any_more(encoder: Encoder) -> None:
    source = Outlined(*(sample(str(i)) for i in range(4)), failing=(0, 1, 2, 3))
    with pytest.raises(UserError, match="nor can 4 others"):
        PromptGate(encoder, on_bad_row="skip")("train", source)[0]


def test_iteration_ends(encoder: Encoder) -> None:
    passed: Admitted = PromptGate(encoder)("train", Listed(sample("a"), sample("b")))
    assert [s.id for s in passed] == ["a", "b"]  # type: ignore[attr-defined]
    assert passed[-1].id == "b"
