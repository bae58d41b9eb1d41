"""A fingerprint tells data apart, and nothing else."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from mmcredit.data.fingerprint import PROBED, fingerprint
from mmcredit.data.gate import Gate
from mmcredit.data.prompt_gate import Admitted
from mmcredit.data.sources.jsonl import Jsonl
from mmcredit.data.world.source import World


def test_the_same_world_has_the_same_fingerprint():
    assert fingerprint(World("train", 100, seed=1)) == fingerprint(World("train", 100, seed=1))
    assert fingerprint(World("train", 0)) != fingerprint(World("train", 1))


@pytest.mark.parametrize("other", [World("val", 100, seed=1), World("train", 101, seed=1), World("train", 100, seed=2),
                                   World("train", 100, seed=1, prior=0.9)])  # fmt: skip
def test_another_world_has_another(other):
    assert fingerprint(World("train", 100, seed=1)) != fingerprint(other)


def test_every_row_of_a_file_counts_and_pictures_with_their_pixels(tmp_path):
    rows = [{"id": str(i), "image": "a.png", "question": "?", "answer": str(i)} for i in range(3 * PROBED)]
    file = tmp_path / "a.jsonl"

    def written(colour: str) -> str:
        Image.new("RGB", (8, 8), colour).save(tmp_path / "a.png")
        file.write_text("\n".join(map(json.dumps, rows)))
        return fingerprint(Jsonl(file))

    red = written("red")
    assert written("red") == red and written("blue") != red
    rows[-2]["answer"] = "other"  # which is not among the samples that are probed
    assert written("red") != red


def test_what_the_gate_leaves_out_changes_it(tmp_path):
    rows = [{"id": str(i), "question": "?", "answer": str(i)} for i in range(4)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source = Jsonl(tmp_path / "a.jsonl")
    whole, less = (Admitted(source, places, 9, Gate("a")) for places in (range(4), [0, 1, 3]))
    assert fingerprint(whole) == fingerprint(source) != fingerprint(less)
