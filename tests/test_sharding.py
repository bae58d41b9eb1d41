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


RUNS = {
    **{
        (name, trainer): [*STEPS, *PAPERS[name], f"trainer={trainer}"] for name in PAPERS for trainer in ("fsdp", "ddp")
    },
    **{(name, "fsdp"): [*OPTIONS, *CASES[name], "trainer=fsdp"] for name in CASES},
    **{(name, "each"): [*OPTIONS, *CASES[name], "trainer=fsdp", "trainer.strategy.sync_each=true"] for name in CASES},
}


def train(folder: Path, rank: int, ranks: int = 2) -> None:
    register_resolvers()
    for (name, trainer), options in RUNS.items():
        if ranks == 2:
            fit(config(folder / f"{name} {trainer}", *options))
        elif not (folder / name).exists():
            fit(config(folder / name, *(option for option in options if not option.startswith("trainer"))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    on_two_ranks(partial(train, folder), folder / "results", limit=3600)
    train(folder, 0, 1)
    return folder


def compare(one: Outcome, two: Outcome, tolerance: float = 2e-6) -> None:
    assert len(one.scalars) == len(two.scalars)
    for row, other in zip(one.scalars, two.scalars, strict=True):
        assert set(row) == set(other)
        for key in (key for key in row if key.startswith(WATCHED)):
            rel = 1e-4 if key == "train/grad_norm" else 1e-5  # rounding of every weight's gradient
            assert other[key] == pytest.approx(row[key], rel=rel, abs=tolerance), key
    alike(one, two)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "trainer"), RUNS)
def test_two_ranks_are_one(folder, name, trainer):
    """Five steps of every paper's method, and work that is uneven over ranks."""
    one, two = outcome(folder / name), outcome(folder / f"{name} {trainer}")
    if name in PAPERS:
        losses = [row["train/loss"] for row in one.scalars if "train/loss" in row]
        assert len(losses) == 5 and len(set(losses)) == 5
    # CED: groups whose gates nearly agree are scaled up to advantages, and with them the rounding of their margins
    compare(one, two, 1e-5 if name == "ced" else 2e-6)
