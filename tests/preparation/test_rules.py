"""What is kept and what becomes the reference, by hand."""

from __future__ import annotations

import pytest

from mmcredit.preparation import report, rules
from mmcredit.services.judge import Verdict


def rolled(right: str, formed: str = "11111111") -> dict:
    """A rollout row of eight responses."""
    texts = [f"response {i}" for i in range(8)]
    return {"id": "s", "responses": texts, "correct": [c == "1" for c in right], "format": [c == "1" for c in formed]}


@pytest.mark.parametrize(
    ("right", "formed", "fault"),
    [
        ("00000000", "11111111", "too_hard"),
        ("10000000", "11111111", None),
        ("11111110", "11111111", None),
        ("11111111", "11111111", "too_easy"),
        ("11000000", "00111111", "format"),
        ("11000000", "01000000", None),
    ],
)
def test_learnability(right, formed, fault):
    assert rules.learnability_fault(rolled(right, formed), 1 / 8, 7 / 8) == fault


def test_relevance_and_captions():
    rows = [{"id": "a", "relevance": 0.5}, {"id": "b", "relevance": 0.4}, {"id": "c", "failure": "timeout"}]
    assert [rules.relevance_fault(row, 0.5) for row in rows] == [None, "irrelevant", "unanswered"]
    assert [rules.caption_fault(row) for row in rows] == [None, None, "unanswered"]


def test_domains_are_cut_in_order():
    rows = [{"id": i, "family": f} for i, f in enumerate("aabab")]
    assert [row["id"] for row in rules.balanced(rows, 2)] == [0, 1, 2, 4]
    assert rules.balanced(rows, None) == rows


def test_candidates_are_right_well_formed_and_distinct():
    row = rolled("11101000", "11111011")
    row["responses"][2] = "response 0"
    assert rules.candidates(row) == ["response 0", "response 1", "response 4"]


def test_the_best_holds_against_all_that_follow():
    """Longer is better, equal length is a tie; the judge has no answer about x. One call a round for all samples."""
    calls = []

    def longer(duels):
        calls.append([name for name, _, _ in duels])
        return [
            Verdict(failure="timeout") if "x" in a else Verdict(None if len(a) == len(b) else len(a) > len(b))
            for _, a, b in duels
        ]

    found = rules.best_of({"s": ["a", "bbb", "cc", "ddd"], "t": ["e", "xxx"], "u": ["f"]}, longer)
    assert found["s"] == rules.Winner("bbb", duels=3, failures=0, ties=1)
    assert found["t"] == rules.Winner("e", duels=1, failures=1, ties=0)
    assert found["u"] == rules.Winner("f", duels=0, failures=0, ties=0)
    assert calls == [["s", "t"], ["s"], ["s"]]
    assert rules.best_of({}, longer) == {}


def test_the_report_by_hand():
    part = report.stage("learnability", 5, [None, "too_easy", None, "too_hard", "too_easy"])
    assert part == {"stage": "learnability", "in": 5, "kept": 2, "dropped": {"too_easy": 2, "too_hard": 1}}
    counts = report.learnability([rolled("10000000"), rolled("10000001"), rolled("11000000")])
    assert counts == {f"{n}/8": {1: 1, 2: 2}.get(n, 0) for n in range(9)}
    assert report.learnability([]) == {}
    rows = [{"candidates": 3, "duels": 2, "failures": 1, "ties": 0, "old": False}] * 2
    assert report.references(rows) == {
        "samples": 2, "kept_old": 0, "candidates": 6, "duels": 4, "failures": 2, "ties": 0,
    }  # fmt: skip
