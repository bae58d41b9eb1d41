"""Importance weights between engine and trainer, and the watch over their difference."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hydra.errors import InstantiationException
from ranks import on_two_ranks
from test_fit import SMALL, config
from test_parents import parent
from test_selection import rows

from mmcredit.algorithm.mismatch import KEY, importance, report
from mmcredit.algorithm.objective import loss_terms
from mmcredit.credit import Record
from mmcredit.fit import fit


def test_weights_by_hand():
    old, engine = torch.tensor([-1.0, -1.0, -1.0]), torch.tensor([-1.0, -1.5, -4.0])
    assert importance(old, engine, 2.0).tolist() == pytest.approx([1.0, math.exp(0.5), 2.0])
    assert importance(old, engine, None).tolist() == [1, 1, 1]
    far = importance(torch.tensor([0.0, -1e4]), torch.tensor([-1e4, 0.0]), 2.0)
    assert far.tolist() == pytest.approx([2.0, math.exp(-20)])


def test_a_cap_below_one_is_refused():
    with pytest.raises(InstantiationException, match=r"algorithm.tis=0.5 must be at least 1"):
        parent("grpo", "algorithm.tis=0.5")


def test_samples_of_another_engine_are_weighted_token_by_token(make_rollout, make_scorer):
    """The policy loss is the sum over tokens of weight x surrogate, and the difference is recorded."""
    rollout, scorer = make_rollout(), make_scorer()
    logp = scorer.train_scores(rollout).logp_S.detach()
    shift = torch.linspace(-0.5, 1.0, logp.numel()).view(logp.shape) * rollout.mask_BGT
    engine = logp - shift
    advantage = torch.randn(logp.shape, generator=torch.Generator().manual_seed(0)) * rollout.mask_BGT
    algorithm, size = parent("grpo", "algorithm.tis=1.5"), rollout.mask_BGT.sum()
    record = Record()
    micro = replace(rollout, logp_BGT=logp.clone(), engine_logp_BGT=engine)
    found, _ = loss_terms(algorithm, [], scorer, micro, advantage, None, size, record)
    want = -(advantage * shift.exp().clamp(max=1.5) * rollout.mask_BGT).sum() / size  # the ratio is 1
    assert float(found["policy_loss"].detach()) == pytest.approx(float(want), rel=1e-4)
    mean = float(shift.abs()[rollout.mask_BGT].mean())
    assert record.scalars[KEY] == pytest.approx(mean, rel=1e-3)


def test_quantiles_and_a_limit():
    record = Record()
    report(record, 0.1)
    assert not record.scalars
    record.extend(KEY, torch.linspace(0, 0.18, 101))
    report(record, 0.1)
    assert record.scalars["mismatch/p50"] == pytest.approx(0.09)
    assert record.scalars["mismatch/max"] == pytest.approx(0.18)
    with pytest.raises(RuntimeError, match=r"differ by 0.09 nats .* 0.09 in the median \(limit 0.05\)"):
        report(record, 0.05)


def test_other_weights_show_where_most_tokens_are_certain():
    """As those of an answer in a fixed form: under any weights their log-probs are 0."""
    record = Record()
    record.extend(KEY, torch.tensor([0.0] * 8 + [0.5, 0.7]))
    with pytest.raises(RuntimeError, match=r"differ by 0.12 nats a token on average, 0 in the median"):
        report(record, 0.1)


def watch(rank: int) -> tuple[dict[str, float], str]:
    record = Record()
    if rank == 0:
        record.extend(KEY, torch.tensor([0.1, 0.2, 0.9]))
    try:
        report(record, 0.3)
    except RuntimeError as error:
        return record.scalars, str(error)
    return record.scalars, ""


def test_all_ranks_see_the_same_and_stop_together(tmp_path):
    """One that went on would wait for the other; here one trained on nothing."""
    (first, stopped), (second, other) = on_two_ranks(watch, tmp_path)
    for name, value in {"p50": 0.2, "max": 0.9}.items():
        assert first[f"mismatch/{name}"] == second[f"mismatch/{name}"] == pytest.approx(value)
    assert stopped == other != ""


def test_a_run_with_another_engine_logs_a_difference_of_rounding_alone(tmp_path):
    fit(config(tmp_path, *SMALL, "callbacks=[]", "steps=2", "rollout.engine._target_=fakes.OtherEngine"))
    for q in ("p50", "p99", "max"):
        assert max(rows(tmp_path, f"mismatch/{q}").values()) < 1e-4
