"""What is particular to ViRL39K, MMK12 and MMFineReason; gold answers as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.data import corpora

from mmcredit.data.gate import BadRow
from mmcredit.data.source import Info
from mmcredit.data.sources.golds import answer_tag, conclusion, letter, rate, unboxed, undollared
from mmcredit.data.sources.mmfinereason import MMFineReason
from mmcredit.data.sources.mmk12 import Mmk12
from mmcredit.data.sources.virl39k import Virl39k
from mmcredit.types import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with corpora.cache(tmp_path_factory.mktemp("cache")):
        yield


def test_virl39k_pass_rates_category_and_source(tmp_path: Path) -> None:
    base = Virl39k(corpora.virl39k(tmp_path))
    assert [base.bare(i).meta.get("pass_rate") for i in range(5)] == ["0.25", None, None, None, "0.25"]
    assert (base.info(0), base.info(1)) == (
        Info("(GradeSchool) Counting", 0.25, False),
        Info("(GradeSchool) Counting", None, False),
    )
    trained = Virl39k(tmp_path, pass_rate="PassRate_32BTrained")
    assert {trained.bare(i).meta["pass_rate"] for i in range(5)} == {"0.5"}
    assert (base.bare(0).family, base.bare(0).meta["source"]) == ("(GradeSchool) Counting", "Processed")
    assert (base.bare(0).answer, base.bare(0).meta["gold"]) == (corpora.left(0), f"\\boxed{{{corpora.left(0)}}}")


def test_virl39k_text_only_rows(tmp_path: Path) -> None:
    assert Virl39k(corpora.virl39k(tmp_path))[5].images == ()
    dropped = Virl39k(tmp_path, text_only="drop")
    assert len(dropped) == 5 and dropped.report.dropped == {"text_only": 1}
    with pytest.raises(UserError, match=r"data\.text_only 'no' must be one of keep, drop"):
        Virl39k(tmp_path, text_only="no")


def test_virl39k_the_parquet_file_itself_finds_its_pictures(tmp_path: Path) -> None:
    assert len(Virl39k(corpora.virl39k(tmp_path) / "39Krelease.parquet")[0].images) == 1


def test_virl39k_under_the_names_of_other_copies(tmp_path: Path) -> None:
    rows = [{"problem": "q", "answer": "2", "id": "a", "image": [], "source": "x"}]
    source = Virl39k(corpora.virl39k(tmp_path, rows))
    assert source.report.columns["question"] == "problem" and source.bare(0).id == "a"
    assert "pass_rate" not in source.bare(0).meta


def test_mmk12_answers_lose_their_dollars(tmp_path: Path) -> None:
    source = Mmk12(corpora.mmk12(tmp_path / "m"))
    assert (source.bare(1).answer, source.bare(1).meta["gold"]) == (corpora.left(1), f"$${corpora.left(1)}$$")
    assert source.bare(0).family == "math"


def finereason(folder: Path, **changes: Any) -> MMFineReason:
    row = {key: value for key, value in {**corpora.mmfinereason_rows()[0], **changes}.items() if value is not ...}
    return MMFineReason(corpora.mmfinereason(folder, [row]))


def test_mmfinereason_keeps_the_conclusion_only(tmp_path: Path) -> None:
    meta = finereason(tmp_path / "m", qwen3vl_4b_pass_rate=0.25).bare(0).meta
    assert meta["solution"] == f"It is round.\n{corpora.left(0)}"
    assert meta["pseudo_ground_truth"] == f"two digits, {corpora.left(0)} on the left"
    assert (meta["source"], meta["pass_rate"]) == ("MMK12", "0.25")
    assert not any("Is it a 3?" in value for value in meta.values())


@pytest.mark.parametrize(
    ("columns", "column", "gold"),
    [
        ({"answer": "5"}, "answer", "5"),
        ({"answer": "<answer>5</answer>"}, "answer", "5"),
        ({"answer": ..., "original_answer": "\\boxed{5}"}, "original_answer", "5"),
        ({"answer": ..., "solution": "It is $2+3$, so \\boxed{5}."}, None, corpora.left(0)),
        ({"answer": None, "solution": "x"}, "answer", corpora.left(0)),
        ({"answer": ..., "qwen3vl_235b_thinking_response": ..., "solution": "So \\boxed{5}."}, None, "5"),
    ],
)
def test_mmfinereason_whatever_the_answer_is_called(
    tmp_path: Path, columns: dict[str, Any], column: str | None, gold: str
) -> None:
    source = finereason(tmp_path / "m", **columns)
    assert source.report.columns.get("answer") == column
    assert source.bare(0).answer == gold


def test_mmfinereason_without_any_answer(tmp_path: Path) -> None:
    gone = {"answer": ..., "qwen3vl_235b_thinking_response": ...}
    with pytest.raises(UserError, match="no column for the answer or solution or response; known names are answer,"):
        finereason(tmp_path / "none", **gone)
    with pytest.raises(UserError, match="neither an answer nor a response with <answer> tags"):
        finereason(tmp_path / "cut", answer=..., qwen3vl_235b_thinking_response="<think>cut off")


@pytest.mark.parametrize(
    ("text", "inner"),
    [("\\boxed{a}", "a"), ("\\boxed {a}", "a"), ("\\boxed{\\text{a} \\} b}", "\\text{a} \\} b"), ("x", "x"), ("", "")],
)
def test_unboxed(text: str, inner: str) -> None:
    assert unboxed(text) == inner


@pytest.mark.parametrize("text", ["\\boxed{a", "\\boxed{\\}", "\\boxed{ }", "\\boxed{a}\\boxed{b}", "\\boxed{" * 9999])
def test_a_box_that_cannot_be_taken_off(text: str) -> None:
    with pytest.raises(BadRow):
        unboxed(text)


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("$$6$$", "6"),
        ("$6$", "6"),
        (" $ 6 $ ", "6"),
        ("$a$ and $b$", "$a$ and $b$"),
        ("$5", "$5"),
        ("$", "$"),
        ("$$", ""),
    ],
)
def test_undollared(text: str, inner: str) -> None:
    assert undollared(text) == inner


def test_answer_tags_and_conclusions() -> None:
    text = "<think>a</think>b <answer>1</answer> c <answer> 2 </answer>"
    assert answer_tag(text) == "2" and answer_tag("none") is None
    assert conclusion(text) == "b 1 c  2" and conclusion("no thought") == "no thought"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"),
        (1, "1"),
        ("0.5", "0.5"),
        (0.125, "0.125"),
        (None, None),
        (-1, None),
        (1.5, None),
        ("x", None),
        ([], None),
    ],
)
def test_rate(value: object, told: str | None) -> None:
    assert rate(value) == told


@pytest.mark.parametrize(
    ("value", "name"), [("b", "B"), ("12", "B"), (12, "B"), ("E", None), ("7", None), (None, None), ("", None)]
)
def test_letter(value: object, name: str | None) -> None:
    assert letter(value, ["6", "12", "7", "7"]) == name
