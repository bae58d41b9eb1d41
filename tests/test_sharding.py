"""Models shared out over two ranks (gloo, CPU) give the losses, weights and validation of one process."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from ranks import on_two_ranks
from test_fit import config
from test_ranks import CASES, OPTIONS, Outcome, alike, outcome

from mmcredit.fit import fit
from mmcredit.launch import register_resolvers

WATCHED = ("train/", "reward/", "val/")  # quantiles of a method's own numbers are means over ranks
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
    "lora": ["callbacks=[]", "model/train=lora", "algorithm.kl_coef=0.05"],
    "last layers": ["callbacks=[]", "model/train=last_layers", "model.train.count=2"],
    "frozen tower": ["callbacks=[]", "model/train=language", "model.policy.gradient_checkpointing=true"],
}


def train(folder: Path, rank: int, cases: dict[str, list[str]]) -> None:
    register_resolvers()
    for name, overrides in cases.items():
        fit(config(folder / name, *overrides))


def compare(one: Outcome, two: Outcome) -> None:
    assert len(one.scalars) == len(two.scalars)
    for row, other in zip(one.scalars, two.scalars, strict=True):
        assert set(row) == set(other)
        for key in (key for key in row if key.startswith(WATCHED)):
            assert other[key] == pytest.approx(row[key], rel=1e-5, abs=2e-6), key
    alike(one, two)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sync_each", [False, True])
def test_uneven_work_ends_whenever_gradients_are_averaged(name, sync_each, tmp_path):
    options = [*OPTIONS, *CASES[name]]
    shared = [*options, "trainer=fsdp", f"trainer.strategy.sync_each={sync_each}"]
    on_two_ranks(partial(train, tmp_path / "two", cases={name: shared}), tmp_path / "results")
    train(tmp_path / "one", 0, {name: options})
    compare(*(outcome(tmp_path / run / name) for run in ("one", "two")))
