"""Two epochs of four steps, stopped inside an epoch, at its border and after it: the run goes on with the very next
sample."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.test_fit import config, losses

from mmcredit.checkpoints import step_of
from mmcredit.fit import fit
from mmcredit.types import UserError

SMALL = ["data.train.size=16", "data.batch_size=4", "algorithm.mini_batch=4", "algorithm.micro_batch=4", "logger=csv"]
SMALL += ["rollout.group=2", "rollout.max_new_tokens=4", "algorithm.epochs=2", "callbacks=[]", "data.val.val.size=0"]
SMALL += ["data.val.counter_prior.size=0", "reward._target_=fakes.Ruled"]
SMALL += [f"+reward.mixed=[{','.join(f'world-0-train-{i}' for i in range(0, 16, 2))}]"]
ORDERS = ["shuffle", "balanced_no_replacement", "sequential"]


def trained(folder: Path, steps: int, options: list[str], after: Path | None = None) -> Path:
    resume = [f"ckpt_path={after}/checkpoints/last.ckpt"] if after else []
    folder.mkdir(parents=True)
    witness = ["+callbacks.witness._target_=fakes.Witness", f"+callbacks.witness.path={folder}/drawn.txt"]
    fit(config(folder, *SMALL, f"steps={steps}", *options, *witness, *resume))
    return folder


def ids(*folders: Path) -> list[str]:
    """Each drawn batch; the two prompts that are tried before training are not among them."""
    return [line for folder in folders for line in (folder / "drawn.txt").read_text().splitlines()]


def same(options: list[str], folder: Path) -> Path:
    whole = trained(folder / "whole", 8, options)
    stops: dict[int, Path] = {}
    for stop, before in ((3, None), (4, 3), (5, 4)):
        stops[stop] = trained(folder / f"to{stop}", stop, options, stops[before] if before else None)
    end = trained(folder / "end", 8, options, stops[5])
    parts = [*stops.values(), end]
    assert ids(*parts) == ids(whole)
    assert {step: loss for part in parts for step, loss in losses(part).items()} == losses(whole)
    saved = [torch.load(f / "checkpoints/last.ckpt", weights_only=True) for f in (whole, end)]
    assert len(set(losses(whole).values())) > 4
    assert saved[0]["mmcredit"] == saved[1]["mmcredit"]
    for name, weight in saved[0]["state_dict"].items():
        assert torch.equal(weight, saved[1]["state_dict"][name]), name
    return whole


@pytest.mark.parametrize("order", ORDERS)
def test_stopping_at_steps_3_4_and_5_of_two_epochs_changes_nothing(order, tmp_path):
    whole = same([f"data/sampler={order}"], tmp_path)
    assert len(losses(whole)) == len(ids(whole)) == 8
    epochs = [" ".join(ids(whole)[k : k + 4]).split() for k in (0, 4)]
    assert all(len(set(epoch)) == 16 for epoch in epochs), "each epoch is every sample once"
    assert (epochs[0] == epochs[1]) == (order == "sequential")


@pytest.mark.parametrize("order", ORDERS[:2])
def test_the_same_where_a_step_draws_several_batches(order, tmp_path):
    """Dynamic sampling keeps every second sample: about two batches a step."""
    whole = same(["algorithm=dapo", "algorithm.selection.max_tries=4", f"data/sampler={order}"], tmp_path)
    assert len(losses(whole)) == 8 and len(ids(whole)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS[:2])
@pytest.mark.parametrize("stop", [3, 4, 5])
def test_each_stop_by_itself_with_ced(order, stop, tmp_path):
    options = [f"data/sampler={order}", "callbacks=[ced]", "algorithm.kl_coef=0.01", "algorithm.epochs=2"]
    whole = trained(tmp_path / "whole", 8, options)
    part = trained(tmp_path / "part", stop, options)
    rest = trained(tmp_path / "rest", 8, options, part)
    assert ids(part, rest) == ids(whole)
    assert losses(part) | losses(rest) == losses(whole) and len(losses(whole)) == 8


@pytest.mark.parametrize("background", ["false", "true"])
def test_from_the_best_checkpoint_which_is_saved_after_its_validation(background, tmp_path):
    options = ["data.val.val.size=4", "val_every=3", "observers.checkpoint.keep_best=3", "observers.checkpoint.every=2"]
    options += [f"observers.checkpoint.background={background}"]
    fit(config(tmp_path / "whole", *SMALL, "steps=7", *options, "data.val.val.size=4"))
    found = {step_of(p.resolve()): p for p in (tmp_path / "whole/checkpoints").glob("best_val-accuracy_*.ckpt")}
    assert sorted(found) == [3, 6, 7]
    done, best = 3, found[3]
    fit(config(tmp_path / "rest", *SMALL, "steps=7", *options, "data.val.val.size=4", f"ckpt_path={best}"))
    whole, rest = losses(tmp_path / "whole"), losses(tmp_path / "rest")
    assert rest == {step: loss for step, loss in whole.items() if step > done} and len(whole) == 7
    saved = [torch.load(tmp_path / f / "checkpoints/last.ckpt", weights_only=True) for f in ("whole", "rest")]
    for name, weight in saved[0]["state_dict"].items():
        assert torch.equal(weight, saved[1]["state_dict"][name]), name


def test_best_checkpoints_need_validations(tmp_path):
    with pytest.raises(UserError, match=r"keep_best=1 needs validations during training, e.g. val_every=20"):
        fit(config(tmp_path, *SMALL, "steps=2", "observers.checkpoint.keep_best=1"))
