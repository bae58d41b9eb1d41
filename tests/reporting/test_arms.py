"""Runs are grouped into arms, whose names are short and tell them apart."""

from __future__ import annotations

from run_case import make_run

from mmcredit.reporting.arms import LONGEST, arms
from mmcredit.reporting.comparison import compare
from mmcredit.reporting.runs import load_run


def test_arms_are_runs_that_differ_in_their_seed_only(tmp_path):
    paths = [make_run(tmp_path / f"{m}{s}", *m.split(), seed=s) for m in ("", "CED", "VPPO PACG") for s in (1, 0)]
    found, remarks = arms([load_run(path) for path in paths])
    assert [(arm.name, list(arm.runs)) for arm in found] == [
        ("no method", [0, 1]), ("CED", [0, 1]), ("VPPO > PACG", [0, 1])
    ]  # fmt: skip
    assert remarks == []


def test_arms_of_the_same_methods_are_named_by_what_differs(tmp_path):
    runs = [make_run(tmp_path / f"{lr}", "CED", optimizer={"lr": lr}) for lr in (0.1, 0.2)]
    found, _ = arms([load_run(path) for path in [*runs, make_run(tmp_path / "plain")]])
    assert [arm.name for arm in found] == ["CED, optimizer.lr=0.1", "CED, optimizer.lr=0.2", "no method"]


def test_settings_of_methods_that_are_not_chosen_do_not_count(tmp_path):
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1, callbacks={"pacg": {"margin": 0.1}})]
    assert len(arms([load_run(path) for path in runs])[0]) == 1


def test_of_two_runs_of_a_seed_the_later_counts_and_a_remark_says_so(tmp_path):
    runs = [load_run(make_run(tmp_path / name, accuracy=value)) for name, value in (("a", 0.1), ("b", 0.2))]
    (arm,), (remark,) = arms(runs)
    assert arm.runs[0].path.name == "b" and "left out" in remark and "seed 0" in remark


def test_unlike_arms_of_the_same_methods_are_numbered_and_a_table_says_what_differs(tmp_path):
    data = {"path": "/data/questions/of/one/kind/in/a/folder.jsonl", "batch_size": 16, "on_bad_row": "raise"}
    paths = [make_run(tmp_path / "a"), make_run(tmp_path / "b", data=data, rollout={"group": 8})]
    paths += [make_run(tmp_path / "c", data=data | {"on_bad_row": "skip"}, rollout={"group": 8})]
    found, _ = arms([load_run(path) for path in [*paths, make_run(tmp_path / "d", "CED")]])
    assert [arm.name for arm in found] == ["no method (1)", "no method (2)", "no method (3)", "CED"]
    table = compare(found, None).tables[0]
    assert (table.title, table.head) == ("Arms", ("setting", "no method (1)", "no method (2)", "no method (3)"))
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["rollout.group"] == ("4", "8", "8") and rows["data.on_bad_row"] == ("-", "raise", "skip")
    assert rows["data.path"][1].startswith("...") and rows["data.path"][1].endswith("/in/a/folder.jsonl")
    assert len(rows["data.path"][1]) == 40 and "optimizer.lr" not in rows


def test_names_are_never_the_same(tmp_path):
    """Not even where the settings read alike, or only a long one differs."""
    texts = [{"template": {"text": text}} for text in ("1", 1, "a" * LONGEST + "b", "a" * LONGEST + "c")]
    found, _ = arms([load_run(make_run(tmp_path / str(i), **text)) for i, text in enumerate(texts)])
    assert len({arm.name for arm in found}) == 4


def test_where_names_are_short_no_table_is_needed(tmp_path):
    found, _ = arms([load_run(make_run(tmp_path / str(lr), optimizer={"lr": lr})) for lr in (0.1, 0.2)])
    assert [arm.name for arm in found] == ["no method, optimizer.lr=0.1", "no method, optimizer.lr=0.2"]
    assert compare(found, None).tables[0].title == "Results"
