"""NoisyRollout: which responses come from which picture, the schedule, and that a run can be resumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.test_fit import SMALL, config, losses

from mmcredit.algorithm.sampling_edits import check_sampling
from mmcredit.build import build
from mmcredit.callbacks.noisy_rollout import NoisyRollout, constant, linear_decay, sigmoid_decay
from mmcredit.credit import CreditCallback, Record
from mmcredit.fit import fit
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.parts import interleave
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.scoring.edits import Blank, FeatureNull, ImageEdit, Original, PixelNoise
from mmcredit.scoring.sight import Sight
from mmcredit.scoring.views import View
from mmcredit.types import UserError

RUN = [*SMALL, "experiment=world_noisy_rollout", "data.val.val.size=0", "data.val.counter_prior.size=0"]


def tokens(sampled: Sequence[Sequence[torch.Tensor]], part: slice = slice(None)) -> list[list[list[int]]]:
    return [[y.tolist() for y in group[part]] for group in sampled]


@pytest.mark.parametrize("batch", [512, 8, 1])
def test_shares_of_a_group(policy, prompts, make_scorer, batch):
    """Each version of the picture gets its places of the group, as if all responses came from it."""
    sight, law = make_scorer().sight, SamplingLaw(6, 1.0, 1.0, 8)
    versions = [sight.edited(prompts, edit) for edit in (Original(), PixelNoise(0.6, (3,)), Blank())]
    engine = HFEngine(law, seed=7, batch=batch)
    found = engine.generate(policy, interleave(versions), 2, shares=3).ids
    for share, version in enumerate(versions):
        places = slice(2 * share, 2 * share + 2)
        assert tokens(found, places) == tokens(HFEngine(law, seed=7).generate(policy, version, 2).ids, places)
    plain = tokens(HFEngine(law, seed=7).generate(policy, prompts, 2).ids)
    assert tokens(found)[2] == plain[2], "text only"
    differ = [tokens(found)[b][g] != plain[b][g] for b in (0, 1, 3) for g in range(2, 6)]
    assert sum(differ) >= 6 and len(found) == 4 and all(len(group) == 6 for group in found)


def test_the_rollout_of_a_run(tmp_path):
    """Clean pictures are stored and scored; the first half is that of plain sampling, the second is not."""
    noisy, plain = (build(config(tmp_path, *RUN, f"callbacks=[{c}]")) for c in ("noisy_rollout", ""))
    shown = noisy.data.first_prompts(4)
    rollout, expected = (run.module.sample(shown, Record()) for run in (noisy, plain))
    assert all(torch.equal(a, b) for a, b in zip(rollout.prompts.pixels, shown.pixels, strict=True))
    ours, theirs = (r.responses.texts for r in (rollout, expected))
    assert [group[:2] for group in ours] == [group[:2] for group in theirs]
    assert [group[2:] for group in ours] != [group[2:] for group in theirs]
    assert torch.equal(*(run.module.scorer.logp(rollout, View()) for run in (noisy, plain)))


def test_halves_are_reported(make_rollout, make_scorer):
    rollout, record = make_rollout(group=4), Record()
    correct = torch.tensor([[True, True, False, False]] * 3 + [[True, False, True, False]])
    rollout = replace(rollout, grades=replace(rollout.grades, correct_BG=correct), step=30)
    method = NoisyRollout(0.5, partial(linear_decay, steps=40))
    assert method.on_reward(rollout, make_scorer(), record) is rollout.reward_BG
    assert record.scalars == {
        "noisy_rollout/strength": 0.125, "noisy_rollout/accuracy_clean": 0.875, "noisy_rollout/accuracy_noisy": 0.125,
    }  # fmt: skip


def test_schedules():
    for step in range(0, 80, 7):
        literal = 1.0 - 1 / (1 + math.exp(-30 * (step / 60 - 40 / 60)))
        assert sigmoid_decay(step, 60) == pytest.approx(literal, abs=1e-6)
        assert linear_decay(step, 60) == pytest.approx(max(0.0, 1 - step / 60), abs=1e-6)
    assert sigmoid_decay(40, 60) == pytest.approx(0.5) and sigmoid_decay(10**9, 1) < 1e-300
    method = NoisyRollout(0.4, partial(linear_decay, steps=10))
    assert [method.sampling_edits(s)[1] for s in (0, 5, 99)] == [PixelNoise(s) for s in (0.4, 0.2, 0.0)]
    assert NoisyRollout().sampling_edits(123) == (Original(), PixelNoise(0.5)) and constant(5) == 1


class Samples(CreditCallback):
    paper = "https://example.org"

    def __init__(self, *edits: ImageEdit) -> None:
        self.edits = edits

    def sampling_edits(self, step):
        return self.edits


@pytest.mark.parametrize(
    ("chain", "group", "words"),
    [
        ([NoisyRollout()], 5, r"rollout.group=5: NoisyRollout samples .* from 2 versions .* use a multiple of 2"),
        ([Samples(*[Blank()] * 3)], 8, r"rollout.group=8: Samples .* from 3 versions"),
        ([NoisyRollout(), Samples(Blank())], 4, r"NoisyRollout and Samples both choose .* keep one"),
        ([Samples(Original(), FeatureNull())], 4, r"Samples samples under FeatureNull, which changes no pixels"),
    ],
)
def test_chains_that_cannot_sample_are_refused(chain, group, words):
    with pytest.raises(UserError, match=words):
        check_sampling(chain, group)


def test_chains_that_can_sample():
    check_sampling([], 5)
    check_sampling([Samples(), NoisyRollout(), Samples()], 2)
    check_sampling([Samples(Blank())], 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strength": 1.5}, r"strength of pixel noise must be in 0..1, not 1.5"),
        ({"schedule": partial(linear_decay, steps=0)}, r"schedule gives .* steps must be positive"),
        ({"schedule": partial(linear_decay, steps=-3)}, r"schedule gives .* steps must be positive"),
        ({"schedule": lambda step: 2.0}, r"0..1 is needed"),
    ],
)
def test_mistakes_are_named(options, words):
    with pytest.raises(UserError, match=words):
        NoisyRollout(**options)


def test_an_odd_group_ends_with_one_line(tmp_path):
    with pytest.raises(UserError, match=r"rollout.group=3: .* use a multiple of 2"):
        build(config(tmp_path, *RUN, "rollout.group=3"))


def test_stopping_and_resuming_changes_no_bit(tmp_path):
    options = [*RUN, "callbacks.noisy_rollout.schedule.steps=4"]
    fit(config(tmp_path / "whole", *options, "steps=4"))
    fit(config(tmp_path / "a", *options, "steps=2"))
    fit(config(tmp_path / "b", *options, "steps=4", f"ckpt_path={tmp_path}/a/checkpoints/last.ckpt"))
    assert losses(tmp_path / "a") | losses(tmp_path / "b") == losses(tmp_path / "whole")


def test_edited_prompts_keep_all_but_pixels(prompts, make_scorer):
    sight: Sight = make_scorer().sight
    noisy = sight.edited(prompts, PixelNoise(0.5))
    assert noisy.samples is prompts.samples and noisy.ids is prompts.ids and noisy.grids is prompts.grids
    assert noisy.pixels[2] is None and noisy.pixels[0].shape == prompts.pixels[0].shape
    assert sight.edited(prompts, Original()).pixels[0] is prompts.pixels[0]
