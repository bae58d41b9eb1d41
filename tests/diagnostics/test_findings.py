"""Tables as Markdown and JSON."""

from __future__ import annotations

import json

from mmcredit.diagnostics.figures import bars, histogram, lines, points
from mmcredit.diagnostics.findings import Findings, Section, write
from mmcredit.evaluation.statistics import Estimate

NAN = float("nan")
HALF = Estimate(0.5, None, 0.25, 0.75)


def test_tables_figures_and_nothing_half_written(tmp_path):
    rows = [{"who": "a|<b>\nc", "value": HALF, "n": 3}, {"who": "d", "value": Estimate(NAN, None, NAN, NAN), "x": 1e-5}]
    rows.append({"who": "e", "value": Estimate(2.0, None, NAN, NAN)})
    figure = bars({"a": {"one": HALF, "two": Estimate(NAN, None, NAN, NAN)}}, "value")
    text = write(Findings([Section("T", rows, ["note"])], {"f": figure}), tmp_path / "out", {"diagnostic": "test"})
    assert "| a&#124;&lt;b&gt; c | 0.5000 [0.2500, 0.7500] | 3 | - |" in text
    assert "| d | - | - | 1.00e-05 |" in text and "\n\nnote\n" in text
    assert "| e | 2.0000 [-] |" in text
    assert (tmp_path / "out" / "table.md").read_text() == text
    content = json.loads((tmp_path / "out" / "table.json").read_text())
    assert content["sections"][0]["rows"][0]["value"] == {"value": 0.5, "low": 0.25, "high": 0.75}
    assert content["sections"][0]["rows"][1]["value"] == {"value": None, "low": None, "high": None}
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["f.png", "table.json", "table.md"]
    assert (tmp_path / "out" / "f.png").read_bytes().startswith(b"\x89PNG")


def test_a_table_without_rows_is_left_out(tmp_path):
    sections = [Section("Levels", [{"checkpoint": "base"}]), Section("Changes", [], ["against base"])]
    text = write(Findings(sections), tmp_path, {"diagnostic": "test"})
    assert "## Levels" in text and "Changes" not in text and "against base" not in text
    assert [s["title"] for s in json.loads((tmp_path / "table.json").read_text())["sections"]] == ["Levels"]


def test_every_kind_of_figure_is_drawn(tmp_path):
    import numpy as np

    figures = {
        "lines": lines({"a": [HALF, HALF]}, ["x", "y"], "v"),
        "points": points({"a": HALF}, {"a": HALF}, "x", "y"),
    }
    figures["histogram"] = histogram({"a": np.array([0.0, 1.0, 2.0]), "b": np.zeros(0)}, "v")
    write(Findings([], figures), tmp_path, {"diagnostic": "test"})
    assert {p.stem for p in tmp_path.glob("*.png")} == set(figures)
