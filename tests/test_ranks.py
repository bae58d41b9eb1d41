"""Two ranks give the losses, weights and validation of one: each with the whole model (ddp), or with a part (fsdp)."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ranks import on_two_ranks
from safetensors.torch import load_file
from test_fit import config
from torch import distributed

from mmcredit.checks import check
from mmcredit.credit import Record
from mmcredit.data.sampling import Pool, Shuffle
from mmcredit.fit import fit
from mmcredit.functional import across_ranks, gather, rank, world
from mmcredit.launch import register_resolvers
from mmcredit.observers.heartbeat import Heartbeat
from mmcredit.types import UserError

OPTIONS = ["data.batch_size=8", "algorithm.mini_batch=4", "algorithm.micro_batch=1", "rollout.group=4", "logger=csv"]
OPTIONS += ["rollout.max_new_tokens=10", "callbacks=[]", "data.val_batch_size=2", "steps=2"]
OPTIONS += ["optimizer.lr=1e-3", "+optimizer.eps=1e-3"]  # Adam magnifies rounding otherwise
FIRST = Shuffle().batch(0, Pool(range(8)), 8, 0)  # the first data batch of eight samples; rank 1 has every second
NAMES = [f"world-0-train-{i}" for i in FIRST]
FEW = ["data.train.size=8", "data.val.val.size=0", "data.val.counter_prior.size=0", "reward._target_=fakes.Ruled"]
DAPO = [*FEW, "algorithm=dapo", "algorithm.micro_batch=2", "algorithm.mini_batch=2", "algorithm.selection.max_tries=1"]
TEXT = ["data.train._target_=fakes.PartlyBlind", f"+data.train.text_only=[{','.join(map(str, FIRST[1::2]))}]"]
CENTRED = "+callbacks.centred._target_=fakes.Centred"
CASES = {
    "plain": [
        "algorithm.epochs=2", "algorithm.kl_coef=0.05", "max_grad_norm=0.1", "val_every=2", "data.val.val.size=5",
        "data.val.counter_prior.size=1",
    ],
    "text only on rank 1": [*FEW, *TEXT, f"+reward.mixed=[{','.join(NAMES)}]", "algorithm=gspo", "steps=1"],
    "nothing kept on rank 1": [*DAPO, f"+reward.mixed=[{','.join(NAMES[:6:2])}]", CENTRED],
    "nothing kept": [*DAPO, "steps=1"],
}  # fmt: skip


RESUMED = "nothing kept on rank 1"
TRAINERS = {"ddp": tuple(CASES), "fsdp": ("text only on rank 1", RESUMED)}  # the others in test_sharding.py


@dataclass
class Outcome:
    scalars: list[dict[str, float]]
    weights: dict[str, torch.Tensor]
    summary: dict[str, Any]


def scalars(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "csv" / "metrics.csv").read_text().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    return [{key: float(v) for key, v in row.items() if v and not key.startswith("seconds/")} for row in rows]


def outcome(folder: Path) -> Outcome:
    saved = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)
    return Outcome(scalars(folder), saved["state_dict"], json.loads((folder / "summary.json").read_text()))


def train_all(folder: Path, rank: int, ranks: int = 2) -> None:
    register_resolvers()
    for trainer, names in TRAINERS.items() if ranks == 2 else [("cpu", CASES)]:
        for name in names:
            fit(config(folder / trainer / name, *OPTIONS, f"trainer={trainer}", *CASES[name]))
    if ranks == 2:
        options = [*OPTIONS, *CASES[RESUMED], "trainer=fsdp", "trainer.strategy.checkpoint_folder=true"]
        fit(config(folder / "begun", *options, "steps=1"))
        fit(config(folder / "resumed", *options, f"ckpt_path={folder}/begun/checkpoints/last.ckpt"))
        fit(config(folder / "file", *OPTIONS, *CASES[RESUMED], "trainer=fsdp", "steps=1"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    on_two_ranks(partial(train_all, folder), folder / "results")
    train_all(folder, 0, 1)
    return folder


@pytest.mark.parametrize(("trainer", "name"), [(trainer, name) for trainer in TRAINERS for name in TRAINERS[trainer]])
def test_two_ranks_are_one(folder, trainer, name):
    one, two = outcome(folder / "cpu" / name), outcome(folder / trainer / name)
    assert len(one.scalars) == len(two.scalars)
    for row, other in zip(one.scalars, two.scalars, strict=True):
        assert set(row) == set(other)
        for key, value in row.items():
            assert other[key] == pytest.approx(value, rel=1e-5, abs=2e-6), key
    alike(one, two)


def alike(one: Outcome, two: Outcome) -> None:
    assert one.weights.keys() == two.weights.keys()
    for key, weight in one.weights.items():
        torch.testing.assert_close(two.weights[key], weight, rtol=0, atol=2e-6, msg=key)
    for key in ("metrics_start", "metrics_end", "optimizer_steps"):
        assert two.summary[key] == pytest.approx(one.summary[key], abs=1e-6), key


def test_shared_out_runs_resume_from_a_folder_and_on_another_number_of_ranks(folder):
    """One of two steps on two ranks, the other on two ranks from a folder, and on one from a file."""
    one = outcome(folder / "cpu" / RESUMED)
    assert (folder / "begun" / "checkpoints" / "last.ckpt" / "meta.pt").exists()
    fit(config(folder / "alone", *OPTIONS, *CASES[RESUMED], f"ckpt_path={folder}/file/checkpoints/last.ckpt"))
    for run in ("resumed", "alone"):
        (row,) = scalars(folder / run)
        for key in ("train/loss", "train/grad_norm", "reward/total"):
            assert row[key] == pytest.approx(one.scalars[1][key], rel=1e-5, abs=2e-6), (run, key)
        saved = load_file(folder / run / "policy" / "model.safetensors")
        for key, weight in load_file(folder / "cpu" / RESUMED / "policy" / "model.safetensors").items():
            torch.testing.assert_close(saved[key], weight, rtol=0, atol=2e-6, msg=key)


def test_the_cases_are_what_they_say(folder):
    runs = [outcome(folder / "cpu" / name) for name in CASES]
    assert [(one.summary["optimizer_steps"], one.summary["steps"]) for one in runs] == [(8, 2), (2, 1), (4, 2), (0, 1)]
    *trained, still = (one.weights for one in runs)
    for weights in trained:
        assert max(float((weights[key] - still[key]).abs().max()) for key in still) > 5e-4


def ragged(rank: int) -> dict[str, Any]:
    values = torch.arange(3.0 + 2 * rank) + 10 * rank
    empty = torch.zeros(0) if rank else torch.ones(2)
    rows = torch.full((rank + 1, 2), float(rank))
    return {
        "ragged": across_ranks(values.requires_grad_()), "empty": across_ranks(empty), "rows": across_ranks(rows),
        "flags": across_ranks(torch.tensor([rank == 1])), "who": gather((rank, "x")),
    }  # fmt: skip


def test_across_ranks(tmp_path):
    for found in on_two_ranks(ragged, tmp_path):
        assert found["ragged"].tolist() == [0, 1, 2, 10, 11, 12, 13, 14] and not found["ragged"].requires_grad
        assert found["empty"].tolist() == [1, 1]
        assert found["rows"].tolist() == [[0, 0], [1, 1], [1, 1]]
        assert found["flags"].tolist() == [False, True]
        assert found["who"] == [(0, "x"), (1, "x")]


def stalled(folder: Path, rank: int) -> None:
    """Rank 1 sleeps over its rewards, rank 0 has done and waits."""
    logging.basicConfig(filename=folder / f"{rank}.log", level=logging.WARNING)
    record = Record(running=("credit" if rank == 0 else "reward", time.perf_counter()))
    module = SimpleNamespace(rollout_step=0, record=record)
    heartbeat = Heartbeat(limit=0.3)
    heartbeat._start(module)
    if rank == 1:
        time.sleep(1)
    distributed.barrier()
    heartbeat._end()


def test_the_rank_that_stalls_is_told_from_those_that_wait(tmp_path):
    on_two_ranks(partial(stalled, tmp_path), tmp_path / "results")
    waits, stalls = ((tmp_path / f"{rank}.log").read_text() for rank in range(2))
    assert "rank 0 of 2: stage 'credit' of step 1 has lasted" in waits and "s, waiting for other ranks" in waits
    assert "rank 1 of 2: stage 'reward' of step 1 has lasted" in stalls and "not waiting for other ranks" in stalls


def test_alone_across_ranks_is_the_identity():
    values = torch.ones(3, requires_grad=True)
    assert across_ranks(values) is values and gather(2) == [2] and (rank(), world()) == (0, 1)


@pytest.mark.parametrize(
    "overrides",
    [
        ["trainer=ddp", "algorithm.mini_batch=1", "algorithm.micro_batch=1"],
        ["trainer.strategy=ddp", "trainer.devices=[0,1,2]"],
        ["trainer=ddp", "trainer.num_nodes=3"],
    ],
    ids=" ".join,
)
def test_sizes_that_ranks_cannot_share_are_refused(tmp_path, overrides):
    with pytest.raises(
        UserError, match=r"algorithm\.mini_batch=\d+ and data\.batch_size=16 .* multiples of the \d rank"
    ):
        check(config(tmp_path, *overrides))
