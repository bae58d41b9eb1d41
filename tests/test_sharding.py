"""Models shared out over two ranks (gloo, CPU) give the losses, weights and validation of one process."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from ranks import on_two_ranks
from test_fit import config
from test_ranks import Outcome, outcome

from mmcredit.fit import fit
from mmcredit.launch import register_resolvers

STEPS = ["data.batch_size=8", "algorithm.mini_batch=4", "algorithm.micro_batch=1", "rollout.group=6", "logger=csv"]
STEPS += ["rollout.max_new_tokens=32", "steps=5", "optimizer.lr=1e-4", "+optimizer.eps=1e-3"]
STEPS += ["data.val.val.size=4", "data.val.counter_prior.size=0", "max_grad_norm=0.5"]
PAPERS = {
    "grpo": ["callbacks=[]", "algorithm.kl_coef=0.05"],
    "dapo": ["callbacks=[]", "algorithm=dapo", "algorithm.mini_batch=4", "algorithm.selection.max_tries=3"],
    "vppo": ["experiment=world_vppo"],
    "pacg": ["experiment=world_pacg"],
    "pace": ["experiment=world_pace", "callbacks.pace.refresh_every=2"],
    "ced": ["callbacks=[ced]"],
    "papo": ["experiment=world_papo", "callbacks.papo.masked_grad=true"],
    "opsd": ["experiment=world_opsd"],
}  # fmt: skip


def train(folder: Path, rank: int, cases: dict[str, list[str]]) -> None:
    register_resolvers()
    for name, overrides in cases.items():
        fit(config(folder / name, *overrides))


def compare(one: Outcome, two: Outcome, tolerance: float = 1e-5) -> None:
    assert len(one.scalars) == len(two.scalars)
    for row, other in zip(one.scalars, two.scalars, strict=True):
        assert set(row) == set(other)
        for key, value in row.items():
            assert other[key] == pytest.approx(value, rel=tolerance, abs=tolerance / 5), key
    assert one.weights.keys() == two.weights.keys()
    for key, weight in one.weights.items():
        torch.testing.assert_close(two.weights[key], weight, rtol=0, atol=2e-6, msg=key)
    assert two.summary["metrics_end"] == pytest.approx(one.summary["metrics_end"], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["fsdp", "ddp"])
@pytest.mark.parametrize("name", PAPERS)
def test_five_steps_on_two_ranks_are_those_of_one(name, trainer, tmp_path):
    options = [*STEPS, *PAPERS[name]]
    on_two_ranks(partial(train, tmp_path / "two", cases={name: [*options, f"trainer={trainer}"]}), tmp_path / "results")
    train(tmp_path / "one", 0, {name: options})
    one, two = (outcome(tmp_path / run / name) for run in ("one", "two"))
    losses = [row["train/loss"] for row in one.scalars if "train/loss" in row]
    assert len(losses) == 5 and len(set(losses)) == 5
    compare(one, two)
