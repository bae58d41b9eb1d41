"""The entry point: every diagnostic at its smallest, several processes, mistakes that end with one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial

import pytest
from ranks import on_two_ranks
from tests.diagnostics.conftest import SHIPPED, run_diagnose
from tests.diagnostics.conftest import think_folder as bank_folder  # noqa: F401

from mmcredit.launch import user_error
from mmcredit.overrides import compose_error
from mmcredit.types import UserError

SMALL = {
    "spd": ["diagnostic.seeds=1"],
    "census": [],
    "ced_audit": ["diagnostic.perturb=false"],
    "teacher_drift": [],
    "avoidance": [],
    "sight": [],
}


def whole(folder):
    return json.loads((folder / "table.json").read_text())


@pytest.mark.parametrize("name", SMALL)
def test_every_diagnostic_writes_tables_and_figures_with_intervals(name, bank_folder, tmp_path):  # noqa: F811
    options = [f"diagnostic={name}", f"bank={bank_folder}", *SMALL[name], "rollout.group=2"]
    head = run_diagnose(tmp_path, *options, f"checkpoints={{other: {SHIPPED}}}")
    content = whole(tmp_path)
    assert content["checkpoints"] == {"base": SHIPPED, "other": SHIPPED} and content["questions"] == 16
    assert content["bank"] == head["bank"] == json.loads((bank_folder / "bank.json").read_text())["hash"]
    cells = [cell for section in content["sections"] for row in section["rows"] for cell in row.values()]
    known = [cell for cell in cells if isinstance(cell, dict) and cell["low"] is not None]
    assert known and all(cell["low"] <= cell["high"] for cell in known)
    assert (tmp_path / "table.md").read_text().count("[") >= len(known)
    assert list(tmp_path.glob("*.png")) and not list(tmp_path.glob("*.new"))


def test_two_processes_write_what_one_writes(bank_folder, tmp_path):  # noqa: F811
    options = ["diagnostic=spd", f"bank={bank_folder}", "diagnostic.seeds=1", "batch=3"]
    run_diagnose(tmp_path / "one", *options)
    on_two_ranks(partial(ranked, tmp_path / "two", options), tmp_path / "results")
    assert (tmp_path / "one" / "table.json").read_bytes() == (tmp_path / "two" / "table.json").read_bytes()


def ranked(folder, options, rank):
    from mmcredit.launch import register_resolvers

    register_resolvers()
    run_diagnose(folder, *options)


@pytest.mark.parametrize(
    ("overrides", "wanted"),
    [
        ([], r"bank=None is no reference bank; python -m mmcredit.prepare reference_bank makes one"),
        (["checkpoints=[a]"], r"checkpoints=\['a'\] must be names and folders"),
        (["checkpoints={base: x}"], r"none of them base=base"),
        (["checkpoints={a: /nowhere}"], r"checkpoint a: there is no model directory /nowhere"),
        (["batch=0"], r"batch=0 must be a whole number at least 1"),
        (["diagnostic=exposure"], r"diagnostic.runs=None must name run folders"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes(overrides, wanted, bank_folder, tmp_path):  # noqa: F811
    given = [] if overrides == [] else [f"bank={bank_folder}"]
    with pytest.raises(Exception) as caught:
        run_diagnose(tmp_path, *given, *overrides)
    mistake = user_error(caught.value)
    assert isinstance(mistake, UserError) and "\n" not in str(mistake), caught.value
    assert re.search(wanted, str(mistake)), mistake


def test_an_unknown_diagnostic_is_one_line():
    found = compose_error("diagnose", ["diagnostic=x"])
    assert found == (
        "there is no diagnostic/x; diagnostic has: avoidance, ced_audit, census, exposure, sight, spd, teacher_drift"
    )


@pytest.mark.slow
def test_from_the_command_line(tmp_path):
    command = [sys.executable, "-m", "mmcredit.diagnose"]
    out = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert out.returncode == 2 and out.stderr.startswith("error: bank=None is no reference bank")
