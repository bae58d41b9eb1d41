"""Every section of the benchmarks runs at its smallest size; no number is judged but those that are exact."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch

from benchmarks import flops, growth, memory, methods, packing, peers, step, verify
from benchmarks.ours import FIXED, FORCED, Steps
from benchmarks.settings import SMALLEST, Settings
from benchmarks.table import Table
from benchmarks.timing import interleave, ratio
from mmcredit.scoring.views import View


def in_this_process(arguments):
    return json.dumps(memory.measure(memory.parse(arguments)) | {"mb": 1.0})  # only a fresh process can tell


@pytest.mark.parametrize("section", [packing, methods, growth, flops], ids=lambda s: s.__name__)
def test_section(section):
    for table in section.run(SMALLEST):
        assert table.rows and len({tuple(row) for row in table.rows}) == 1
        assert table.title in str(table)


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs the extra bench")
def test_the_peer_does_the_same_work():
    (table,) = peers.run(SMALLEST)  # raises if the numbers of tokens differ
    assert [(row["T"], row["kl"]) for row in table.rows] == [(3, 0.0)]


def test_without_the_peer_the_section_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    (table,) = peers.run(SMALLEST)
    assert not table.rows and "pip install" in str(table)


def test_the_chunked_head_gives_the_values_of_the_full_matrix(monkeypatch):
    monkeypatch.setattr(memory, "launched", in_this_process)
    monkeypatch.setattr(memory.vlm, "HEAD_ELEMENTS", memory.vlm.HEAD_ELEMENTS)  # a fresh process changes only its own
    (table,) = memory.run(SMALLEST)
    assert len(table.rows) == 6
    assert max(row["max_difference"] for row in table.rows) <= 1e-5


def test_forced_responses_have_the_longest_length_and_fixed_weights_stay():
    steps = Steps(SMALLEST, *FORCED, *FIXED)
    before = [p.clone() for p in steps.module.policy.parameters()]
    assert set(steps()) > {"step", "data", "rollout", "old_logp", "update"}
    rollout = steps.module.report.rollout
    assert rollout.mask_BGT.all() and rollout.shape == (1, SMALLEST.group, SMALLEST.new_tokens)
    assert all(map(torch.equal, before, steps.module.policy.parameters()))


def test_the_formula_counts_what_a_plain_forward_pass_runs():
    steps = Steps(SMALLEST, *FORCED, *FIXED)
    c, policy, prompts = flops.costs(steps.module.policy), steps.module.policy, steps.encode()
    patches, length = len(prompts.pixels[0]), len(prompts.ids[0])
    vision = flops.forward(c, 0, patches, steps.module.scorer.encoder.processor.merge, 0, 0)
    assert flops.counted(lambda: policy.features(prompts.pixels, prompts.grids)) == vision
    text = packing.random_rollout(length, 1, 1)
    masked = (length + 1) * (length + 2) // 2 - (length + 1)  # the kernel computes the pairs above the diagonal too
    plain = flops.forward(c, length, 0, 2, 1, 1)
    steps.module.scorer.packed = True
    assert flops.counted(lambda: steps.module.scorer.logp(text, View())) == plain + masked * c.pair


def test_repetitions_take_turns_and_ratios_are_of_neighbours():
    order = []
    calls = {name: lambda name=name: order.append(name) or {"step": 1.0} for name in "ab"}
    found = interleave(calls, 2)
    assert order == list("ababab") and [len(runs) for runs in found.values()] == [2, 2]
    assert ratio([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]) == {"ratio": 2.0, "ratio_min": 1.0, "ratio_max": 3.0}


def test_the_command_line_chooses_sections_and_sizes_and_writes_json(monkeypatch, tmp_path, capsys):
    class Section:
        run = staticmethod(lambda settings: [Table("title", [{"G": settings.group}])])

    monkeypatch.setattr(step.importlib, "import_module", lambda name: Section)
    step.main([str(tmp_path / "a" / "out.json"), "--sections", "growth", "--group", "3"])
    written = json.loads((tmp_path / "a" / "out.json").read_text())
    assert written["sections"] == {"growth": [{"title": "title", "rows": [{"G": 3}], "notes": []}]}
    assert written["settings"]["new_tokens"] == Settings().new_tokens and written["machine"]["threads"] == 1
    assert "title" in capsys.readouterr().out


def test_verifications_a_second(capsys):
    found = verify.main(20)
    assert list(found) == list(verify.CLASSES) and min(found.values()) > 0
    for make in verify.CLASSES.values():
        gold, answer = make(5)
        assert gold != answer
