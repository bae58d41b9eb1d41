"""The update through whole runs: where old log-probs come from, and that nothing depends on the cut into passes."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from fakes import Centred, Idle
from test_fit import SMALL, config, losses
from test_parents import parent
from test_selection import rows

from mmcredit.algorithm.selection import Batch
from mmcredit.algorithm.statistics import average_ranks
from mmcredit.algorithm.update import Update
from mmcredit.credit import Record
from mmcredit.fit import fit
from mmcredit.models.lockstep import Paced
from mmcredit.scoring.views import View
from mmcredit.types import Rollout

PLAIN = [*SMALL, "callbacks=[]", "data.val.val.size=0", "data.val.counter_prior.size=0", "+optimizer.eps=1e-3"]


@pytest.mark.parametrize("mini", [2, 4])
def test_on_policy_mini_batches_need_no_pass_of_their_own(tmp_path, mini):
    """Same losses, gradients and weights as with a separate pass, also where sampling gives all of them; fewer tokens
    are scored."""
    options = [*PLAIN, "steps=2", f"algorithm.mini_batch={mini}", "algorithm.epochs=2", "algorithm=gspo"]
    reader, other = "+callbacks.idle._target_=fakes.Idle", "rollout.engine._target_=fakes.OtherEngine"
    fit(config(tmp_path / "pass", *options, reader, other))
    fit(config(tmp_path / "first", *options, other))
    fit(config(tmp_path / "sampled", *options, reader))
    for run, key in product(("first", "sampled"), ("train/loss", "train/grad_norm", "train/kl_old")):
        want, found = rows(tmp_path / "pass", key), rows(tmp_path / run, key)
        assert found[1] == pytest.approx(want[1], rel=1e-5, abs=1e-6), (run, key)
        assert found[2] == pytest.approx(want[2], rel=1e-3, abs=1e-5), (run, key)
    tokens = [rows(tmp_path / run, "scoring/tokens_computed")[1] for run in ("pass", "first", "sampled")]
    assert tokens[0] > tokens[1] >= tokens[2] and (tokens[1] > tokens[2]) == (mini < 4)
    saved = [
        torch.load(tmp_path / f / "checkpoints/last.ckpt", weights_only=True) for f in ("pass", "first", "sampled")
    ]
    for (name, weight), other_run in product(saved[0]["state_dict"].items(), saved[1:]):
        torch.testing.assert_close(other_run["state_dict"][name], weight, rtol=0, atol=2e-6)


class Spy:
    """Stands for the scorer: remembers how many prompts it was asked to score, or told the log-probs of."""

    policy = Paced()

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.told: list[int] = []

    def adopt(self, rollout: Rollout) -> None:
        self.told.append(len(rollout.prompts))

    def logp(self, rollout: Rollout, view: View) -> torch.Tensor:
        self.asked.append(len(rollout.prompts))
        return rollout.mask_BGT * -1.0


@pytest.mark.parametrize(
    ("mini", "places", "chain", "asked"),
    [
        (4, (0, 1, 2, 3), [], []),  # one mini-batch: no pass
        (2, (0, 1, 2, 3), [], [2]),
        (1, (0, 1, 2, 3), [], [3]),
        (4, (0, 1, 2, 3), [Centred()], []),
        (4, (0, 1, 2, 3), [Centred(), Idle()], [4]),
        (4, (1, 3, 5, 7), [], [2]),  # rank 1 of two
        (2, (4, 5, 6, 7), [], [4]),  # none of the first mini-batch is on this rank
    ],
)
def test_only_prompts_after_the_first_mini_batch_are_scored(make_rollout, mini, places, chain, asked):
    rollout, spy = make_rollout(), Spy()
    algorithm = parent("grpo", f"algorithm.mini_batch={mini}", "algorithm.micro_batch=1")
    Update(None, algorithm, chain, spy, 1.0).score_old(Batch(rollout, places, places[-1] + 1))
    first = 4 - sum(asked)
    assert spy.asked == asked and not rollout.logp_BGT[:first].any()
    assert torch.equal(rollout.logp_BGT[first:], -1.0 * rollout.mask_BGT[first:])


@pytest.mark.parametrize("mini", [1, 4])
def test_log_probs_that_came_with_the_sample_need_no_pass(make_rollout, mini):
    rollout, spy = replace(make_rollout(), scored=True), Spy()
    before = rollout.logp_BGT.clone()
    update = Update(None, parent("grpo", f"algorithm.mini_batch={mini}", "algorithm.micro_batch=1"), [Idle()], spy, 1.0)
    update.score_old(Batch(rollout, (0, 1, 2, 3), 4))
    assert (spy.asked, spy.told) == ([], [4]) and torch.equal(rollout.logp_BGT, before)


@pytest.mark.parametrize("name", ["dapo", "dr_grpo", "rloo"])
def test_parents_run_and_micro_batches_change_nothing(tmp_path, name):
    options = [*PLAIN, "steps=1", f"algorithm={name}", "algorithm.entropy_coef=0.01"]
    if name == "dapo":
        options += ["algorithm.overlong.factor=0.5", "algorithm.selection.max_tries=3"]
    fit(config(tmp_path / "1", *options, "algorithm.micro_batch=1"))
    fit(config(tmp_path / "2", *options, "algorithm.micro_batch=2"))
    first, second = losses(tmp_path / "1"), losses(tmp_path / "2")
    assert set(first) == set(second) == {1}
    assert float(first[1]) == pytest.approx(float(second[1]), abs=1e-6)


def test_scalars_are_averaged_by_what_is_behind_them(monkeypatch):
    """Rank 0 has three prompts, rank 1 one, rank 2 none (its rates are not numbers)."""
    records = [Record(), Record(), Record()]
    for record, rate, values in zip(records, (0.5, 1.0, float("nan")), ([1.0, 2.0], [6.0], []), strict=True):
        record.scalar("rate", rate)
        record.histogram("values", torch.tensor(values))
    records[1].scalar("of one rank", 7.0)
    counts = [{"rate": n, "values": len(r.histograms["values"])} for n, r in zip((3, 1, 0), records, strict=True)]
    counts[1]["of one rank"] = 1
    counts[2].pop("values")
    ranks = [(dict(r.scalars), c) for r, c in zip(records, counts, strict=True)]
    seen = []

    def gather(value):
        seen.append(value)
        return ranks

    monkeypatch.setattr("mmcredit.algorithm.statistics.gather", gather)
    for record, prompts, rank in zip(records, (3, 1, 0), ranks, strict=True):
        average_ranks(record, prompts)
        assert seen[-1][1] == rank[1]
        assert record.scalars == {"rate": (3 * 0.5 + 1.0) / 4, "values": 3.0, "of one rank": 7.0}
