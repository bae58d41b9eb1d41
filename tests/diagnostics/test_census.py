"""The census equals the oracle's own count."""

from __future__ import annotations

from mmcredit.diagnostics.census import Census, counted
from mmcredit.services.oracle import contradicts


def test_the_census_is_the_oracles_count(think_bank, make_setting, shipped):
    (section,) = Census()(make_setting(think_bank, base=shipped)).sections
    rows = {row["family"]: row for row in section.rows}
    for family in ("all", *{sample.family for sample in think_bank.samples}):
        right = flagged = 0
        for sample, group in zip(think_bank.samples, think_bank.responses, strict=True):
            for response in group if family in ("all", sample.family) else ():
                right += response.correct
                flagged += response.correct and contradicts(response.text, sample)
        assert (rows[family]["right answers"], rows[family]["with an unsupported claim"]) == (right, flagged)
        assert rows[family]["share"].value == flagged / right
    assert 0 < rows["all"]["share"].value < 1 and rows["all"]["share"].low < rows["all"]["share"].high
    assert set(rows) == {"all", "attribute", "counting", "presence", "spatial"}


def test_counts_of_one_question(think_bank):
    group = next(g for g in think_bank.responses if any(c.unsupported for r in g for c in r.direct()))
    flagged, right, bad, direct = counted(group)
    assert right == sum(r.correct for r in group) and flagged <= right
    assert bad == sum(c.status == "contradicted" for r in group for c in r.claims) > 0
    assert direct == sum(len(r.direct("supported")) + len(r.direct("contradicted")) for r in group)
