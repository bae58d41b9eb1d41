"""Rows are read, graded by every verifier, and disagreements listed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import hydra
import pytest
from hydra.utils import instantiate

from mmcredit.data.answers import Kind
from mmcredit.preparation.verifier_report import run
from mmcredit.reward.extract import Extractor
from mmcredit.reward.verdict import Outcome, Verdict
from mmcredit.reward.verifier import AnswerVerifier
from mmcredit.types import UserError

ROWS = [
    {"gold": "0.5", "response": r"so \boxed{\frac12}"},
    {"gold": "A", "response": r"\boxed{A. 12 | 13}"},
    {"answer": "12", "question": "A. 12 B. 13", "response": r"\boxed{A}"},
    {"answer": "12", "choices": ["12", "13"], "response": r"\boxed{B}"},
    {"answer": "12", "response": "no box"},
]


class Literal:
    """Right is what is written like the gold answer."""

    def verify(self, gold: str, answer: str, choices: Sequence[str] = ()) -> Verdict:
        return Verdict(Outcome.RIGHT if gold == answer else Outcome.WRONG, Kind.TEXT, "literal")


def written(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "rows.jsonl", ROWS)
    report = run(str(path), str(tmp_path / "out"), {"own": AnswerVerifier(), "literal": Literal()}, Extractor())
    assert report["rows"] == 5 and report["without_answer"] == 1
    assert report["outcomes"]["own"] == {"right": 3, "wrong": 1, "unparsable": 1}
    assert report["outcomes"]["literal"] == {"wrong": 4, "unparsable": 1}
    assert report["right_only_for"] == {"own / literal": {"letter": {"own": 1}, "number": {"own": 2}}}
    assert json.loads((tmp_path / "out/verifier_report.json").read_text()) == report
    differing = [json.loads(line) for line in (tmp_path / "out/disagreements.jsonl").read_text().splitlines()]
    assert [row["line"] for row in differing] == [1, 2, 3]
    markdown = (tmp_path / "out/verifier_report.md").read_text()
    assert "12 \\| 13" in markdown and markdown.count("own: right, literal: wrong") == 3
    assert "3 disagreements" in capsys.readouterr().out
    assert not list((tmp_path / "out").glob("*.new"))


def test_the_job_as_configured(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", ROWS)
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        given = ["job=verifier_report", f"path={path}", f"run_dir={tmp_path}"]
        given += ["~job.verifiers.mathruler", "~job.verifiers.math_verify"]
        report = instantiate(hydra.compose("prepare", overrides=given).job)
    assert list(report["outcomes"]) == ["own"] and (tmp_path / "verifier_report.md").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [([], "has no rows"), ([{"response": "x"}], "gold is missing"), (["x"], "JSON object"), (None, "is no file")],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, rows: Sequence[object] | None, message: str) -> None:
    path = tmp_path / "rows.jsonl"
    if rows is not None:
        written(path, rows)
    with pytest.raises(UserError, match=message):
        run(str(path), str(tmp_path / "out"), {"literal": Literal()}, Extractor())


def test_bad_rows_can_be_skipped(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.jsonl", [{"response": "x"}, *ROWS])
    report = run(str(path), str(tmp_path), {"literal": Literal()}, Extractor(), on_bad_row="skip")
    assert report["rows"] == 5
