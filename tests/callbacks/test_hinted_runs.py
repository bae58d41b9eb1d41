"""Runs with a teacher: resumed bit for bit, and every experiment of the embedded world."""

from __future__ import annotations

import pytest
import torch
from tests.callbacks.hinted_case import HintedScores, random_case
from tests.test_fit import SMALL, config, losses

from mmcredit.callbacks.cepo import CEPO
from mmcredit.callbacks.pace import PACE
from mmcredit.callbacks.rlcsd import RLCSD
from mmcredit.callbacks.rlsd import RLSD
from mmcredit.credit import Record
from mmcredit.fit import fit

METHODS = ("pace", "rlsd", "rlcsd", "cepo")


def test_stopping_and_resuming_with_a_teacher_changes_no_bit(tmp_path):
    """Copies are made before steps 0 and 3: the resumed step 2 needs the copy of the run before."""
    options = [*SMALL, "experiment=world_pace", "callbacks.pace.refresh_every=3", "callbacks.pace.max_negatives=2"]
    fit(config(tmp_path / "whole", *options, "steps=4"))
    fit(config(tmp_path / "a", *options, "steps=2"))
    fit(config(tmp_path / "b", *options, "steps=4", f"ckpt_path={tmp_path}/a/checkpoints/last.ckpt"))
    assert losses(tmp_path / "a") | losses(tmp_path / "b") == losses(tmp_path / "whole")
    whole, part = (torch.load(tmp_path / f / "checkpoints/last.ckpt", weights_only=True) for f in ("whole", "b"))
    one, other = (state["state_dict"] for state in (whole, part))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
    moved = [not torch.equal(one[name.replace("teacher.", "policy.", 1)], one[name]) for name in one]
    assert any(moved)


@pytest.mark.parametrize("method", METHODS)
def test_experiments_run(method, tmp_path):
    assert fit(config(tmp_path, *SMALL, f"experiment=world_{method}", "steps=1"))["optimizer_steps"] == 2


@pytest.mark.parametrize("method", [PACE(), RLSD(), RLCSD(), CEPO()], ids=METHODS)
def test_a_rank_without_prompts_still_takes_part(method):
    rollout, advantage = random_case(0)
    empty = rollout.select(slice(0, 0))
    assert method.on_advantage(empty, advantage[:0], HintedScores(), Record()).shape == empty.mask_BGT.shape
