"""What the gates let through, as numbers and as text that a corpus cannot spoil."""

from __future__ import annotations

import json
from pathlib import Path

from mmcredit.data.gate import BadRow, Gate, GateReport
from mmcredit.data.prompt_gate import Admitted
from mmcredit.data.report import as_dict, as_markdown, as_table, write
from mmcredit.types import Sample


def sets() -> dict[str, Admitted]:
    report = GateReport("corpus.jsonl", {"question": "problem", "images": "image (list)"}, read=7, kept=4)
    for place in range(3):
        report.drop(place, BadRow("gold_unparsable", f"gold <b>|{place}\n`x`"))
    report.kinds.update(["number", "number", "letter"])
    rows = [Sample(str(i), (), "q", "a") for i in range(4)]
    empty = Admitted([], [], 0, Gate("data.val"))
    return {"train": Admitted(rows, [0, 1, 2], 123, Gate("", "skip", report)), "val": empty}


def test_numbers() -> None:
    found = as_dict(sets())
    assert found["train"] == {
        "source": "corpus.jsonl", "columns": {"question": "problem", "images": "image (list)"}, "read": 7, "kept": 4,
        "samples": 3, "prompt_tokens_at_most": 123, "answer_kinds": {"number": 2, "letter": 1},
        "dropped": {"gold_unparsable": 3}, "stand_ins": {},
        "examples": {"gold_unparsable": [f"{n}: gold <b>|{n}\n`x`" for n in range(3)]},
    }  # fmt: skip
    assert found["val"]["samples"] == 0


def test_table_has_a_line_a_set() -> None:
    lines = as_table(sets()).splitlines()
    assert len({len(line) for line in lines}) == 1 and len(lines) == 4
    assert [cell.strip() for cell in lines[2].strip("|").split("|")] == [
        "train", "7", "4", "3", "<= 123", "number 2, letter 1", "gold_unparsable 3",
    ]  # fmt: skip
    assert [cell.strip() for cell in lines[3].strip("|").split("|")] == ["val", "0", "0", "0", "-", "-", "-"]


def test_markdown_shows_corpus_text_as_text() -> None:
    text = as_markdown(sets())
    assert "* question: column `problem`" in text
    assert "* `0: gold <b>|0 'x'`" in text
    assert "Dropped, gold_unparsable (3):" in text


def test_files_are_complete(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "new"
    write(sets(), folder)
    assert sorted(p.name for p in folder.iterdir()) == ["data_report.json", "data_report.md"]
    assert json.loads((folder / "data_report.json").read_text()) == as_dict(sets())


def test_examples_are_few_and_all_are_counted() -> None:
    report = GateReport("x")
    rare = [report.drop(i, BadRow("json", "no")) for i in range(50)]
    assert rare == [True] * 5 + [False] * 45
    assert report.dropped == {"json": 50} and len(report.examples["json"]) == 5
