"""PAPO against a literal reference on lists, numbers by hand, and its promises."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from ragged import GivenScores, random_rollout, rollout_of
from torch import Tensor

from mmcredit.callbacks.papo import PAPO, papo_loss
from mmcredit.credit import Record
from mmcredit.scoring.edits import FeatureNull, PixelMask
from mmcredit.scoring.views import View
from mmcredit.types import Rollout, UserError

ATOL = 1e-6  # float64 against Python floats
PRESETS = {
    "G-3B": {"gamma": 0.02},
    "G-7B": {"gamma": 0.02, "entropy_masked": 0.05, "entropy_original": 0.05},
    "D": {"gamma": 0.01, "entropy_masked": 0.03, "entropy_original": 0.03},
    "unequal": {"gamma": 0.5, "entropy_masked": 0.2, "entropy_original": -0.1},
}


def literal_papo(
    rollout: Rollout,
    logp: Tensor,
    masked: Tensor,
    gamma: float = 0.02,
    entropy_masked: float = 0.0,
    entropy_original: float = 0.0,
) -> tuple[list[float], list[float]]:
    """Token losses and their derivatives after logp, flat; METHODS section 2, number by number."""
    losses, slopes = [], []
    logp, masked = logp.tolist(), masked.tolist()
    for i in range(rollout.shape[0]):
        for j in range(rollout.shape[1]):
            for k in range(rollout.shape[2]):
                loss = slope = 0.0
                if rollout.mask_BGT[i, j, k] and rollout.prompts.samples[i].images:
                    theta, other = logp[i][j][k], masked[i][j][k]
                    x = max(-20.0, min(20.0, other - theta))
                    k3 = math.exp(x) - x - 1
                    loss = -gamma * min(10.0, k3) + entropy_masked * -other + entropy_original * -theta
                    inside = abs(other - theta) < 20 and k3 < 10
                    slope = -gamma * (1 - math.exp(x)) * inside - entropy_original
                losses.append(loss)
                slopes.append(slope)
    return losses, slopes


def losses_of(method: PAPO, rollout: Rollout, logp: Tensor, scorer: Any, size: int) -> Tensor:
    """[B, G, T], in micro-batches of this many prompts."""
    method.on_advantage(rollout, torch.zeros(rollout.shape), scorer, Record())
    starts = range(0, rollout.shape[0], size)
    parts = [(rollout.select(slice(i, i + size)), logp[i : i + size]) for i in starts]
    return torch.cat([method.on_loss(micro, part, scorer, Record()) for micro, part in parts])


@pytest.mark.parametrize("options", PRESETS.values(), ids=PRESETS)
@pytest.mark.parametrize("seed", range(12))
def test_equals_the_literal_reference(options: dict[str, float], seed: int) -> None:
    """Some log-probs are far apart, so that both clamps of k3 bite."""
    rollout, masked, _ = random_rollout(seed)
    generator = torch.Generator().manual_seed(seed)
    logp = rollout.logp_BGT - torch.rand(rollout.shape, generator=generator, dtype=torch.float64)
    logp = torch.where(torch.rand(rollout.shape, generator=generator) < 0.1, logp - 30, logp).requires_grad_()
    losses, slopes = literal_papo(rollout, logp, masked, **options)
    for size in (1, 2, 9):
        logp.grad = None
        found = losses_of(PAPO(**options), rollout, logp, GivenScores(masked), size)
        torch.testing.assert_close(found.flatten(), found.new_tensor(losses), rtol=0, atol=ATOL)
        found.sum().backward()
        torch.testing.assert_close(logp.grad.flatten(), found.new_tensor(slopes), rtol=0, atol=ATOL)


def test_by_hand() -> None:
    """Twice as likely with the picture: x = -log 2, k3 = .5 + log 2 - 1 = .1931472."""
    logp, masked = torch.tensor([-1.0]).double(), torch.tensor([-1.0 - math.log(2)]).double()
    assert float(papo_loss(logp, masked, 0.02)) == pytest.approx(-0.003862944, abs=1e-8)
    assert float(papo_loss(logp, masked, 0.0, 0.05, 0.0)) == pytest.approx(0.05 * 1.6931472, abs=1e-6)
    assert float(papo_loss(logp, masked, 0.0, 0.0, 0.05)) == pytest.approx(0.05, abs=1e-6)


def test_a_later_mini_batch_finds_its_own_rows() -> None:
    rollout, _, _ = random_rollout(5)
    mini = rollout.select(slice(1, 4))
    assert mini.select(slice(1, 3)).start == 2 and mini.select(slice(None, 1)).start == 1
    assert rollout.start == 0 and rollout.select(slice(2, None)).start == 2


def test_right_and_wrong_rows_alike() -> None:
    """The term does not read the advantage."""
    rollout, masked, advantage = random_rollout(6)
    first, second = PAPO(), PAPO()
    for method, credit in ((first, advantage), (second, -advantage)):
        assert method.on_advantage(rollout, credit, GivenScores(masked), Record()) is credit
    logp = rollout.logp_BGT - 0.1
    assert torch.equal(*(m.on_loss(rollout, logp, GivenScores(masked), Record()) for m in (first, second)))


def test_prompts_without_a_picture_get_no_term() -> None:
    rollout = rollout_of([[[10, 11], [12]], [[13, 14], [15]]], -torch.ones(2, 2, 2), [False, True])
    scorer = GivenScores(-2 * torch.ones(2, 2, 2))
    loss = losses_of(PAPO(**PRESETS["G-7B"]), rollout, rollout.logp_BGT - 0.5, scorer, 2)
    assert not loss[0].any() and loss[1][rollout.mask_BGT[1]].all()
    assert scorer.where[0].tolist() == [[False, False], [True, True]]


def test_annealing_is_linear_and_survives_a_resume() -> None:
    """It counts from the first step seen, here 3, not from the step of the resume."""
    rollout, masked, advantage = random_rollout(4)
    assert rollout.step == 3
    method = PAPO(gamma=0.04, gamma_end=0.0, anneal_steps=4)
    method.on_advantage(rollout, advantage, GivenScores(masked), Record())
    resumed = PAPO(gamma=0.04, gamma_end=0.0, anneal_steps=4)
    resumed.load_state_dict(method.state_dict())
    later = replace(rollout, step=5)
    for m in (method, resumed):
        record = Record()
        m.on_advantage(later, advantage, GivenScores(masked), record)
        assert record.scalars["papo/gamma"] == pytest.approx(0.02)
        assert [m.gamma_at(step) for step in (3, 4, 7, 90)] == pytest.approx([0.04, 0.03, 0.0, 0.0])
    fresh = PAPO(gamma=0.04, gamma_end=0.0, anneal_steps=4)
    fresh.on_advantage(later, advantage, GivenScores(masked), Record())
    assert fresh.gamma_at(5) == 0.04


def test_constant_gamma_by_default() -> None:
    assert [PAPO().gamma_at(step) for step in (0, 1000)] == [0.02, 0.02]


def test_views() -> None:
    rollout, masked, advantage = random_rollout(1)
    scorer = GivenScores(masked)
    PAPO().on_advantage(rollout, advantage, scorer, Record())
    PAPO(per_response=True).on_advantage(rollout, advantage, scorer, Record())
    own = [View(image=PixelMask(0.6, (7, 3, g))) for g in range(rollout.shape[1])]
    assert scorer.views == [View(image=PixelMask(0.6, (7, 3))), *own]
    assert PAPO().extra_views(7) == [View(image=PixelMask(0.6, (7, 0)))]


@pytest.mark.parametrize("edit", [PixelMask(0.6, (1,)), FeatureNull()], ids=["pixels", "features"])
@pytest.mark.parametrize("packed", [True, False])
def test_training_scores_of_a_view_are_its_scores(make_rollout, make_scorer, edit, packed) -> None:
    rollout, scorer, view = make_rollout(), make_scorer(packed=packed), View(image=edit)
    scores = scorer.train_scores(rollout, view)
    expected = scorer.logp(rollout, view)
    torch.testing.assert_close(scores.logp_S.detach(), expected, atol=1e-4, rtol=0)
    assert scores.logp_S.requires_grad and (expected - scorer.logp(rollout, View())).abs().max() > 1e-2


def test_the_papers_form_has_gradients_through_both_pictures(make_rollout, make_scorer, policy) -> None:
    """Value as with the old weights, which have not moved; gradient as of the whole expression."""
    scorer, weight = make_scorer(), policy.hf.get_output_embeddings().weight
    rollout = make_rollout()
    rollout = replace(rollout, logp_BGT=scorer.logp(rollout, View()).clone())
    view = View(image=PixelMask(0.6, (scorer.seed, rollout.step)))
    options = PRESETS["G-7B"]

    def gradient(masked_grad: bool) -> tuple[Tensor, Tensor]:
        method = PAPO(masked_grad=masked_grad, **options)
        method.on_advantage(rollout, torch.zeros(rollout.shape), scorer, Record())
        loss = method.on_loss(rollout, scorer.train_scores(rollout).logp_S, scorer, Record())
        return loss.detach(), torch.autograd.grad(loss.sum(), weight)[0]

    (loss, partial), (loss_both, both) = gradient(False), gradient(True)
    torch.testing.assert_close(loss_both, loss, atol=1e-4, rtol=0)
    logp, masked = (scorer.train_scores(rollout, v).logp_S for v in (View(), view))
    x = masked - logp
    token = -0.02 * (x.exp() - x - 1) - 0.05 * masked - 0.05 * logp
    seen = torch.tensor([bool(s.images) for s in rollout.prompts.samples])[:, None, None] & rollout.mask_BGT
    expected = torch.autograd.grad((token * seen).sum(), weight)[0]
    torch.testing.assert_close(both, expected, atol=1e-3, rtol=1e-3)
    assert (both - partial).abs().max() > 0.1 * both.abs().max()


def test_recorded_metrics() -> None:
    """Of the tokens with a picture, over micro-batches."""
    rollout = rollout_of([[[10, 11], [12]]] * 2 + [[[13], [14]]], torch.zeros(3, 2, 2).double(), [True, True, False])
    masked = torch.tensor([0.0, 1.0]).double().expand(3, 2, 2) - 1
    method, record, scorer = PAPO(), Record(), GivenScores(masked)
    method.on_advantage(rollout, torch.zeros(rollout.shape), scorer, record)
    logp = torch.tensor([[[-1.0, -11.0], [-1.0, 0.0]]] * 3).double()
    for i in range(3):
        method.on_loss(rollout.select(slice(i, i + 1)), logp[i : i + 1], scorer, record)
    assert record.scalars == pytest.approx(
        {
            "papo/gamma": 0.02,
            "papo/kl_masked": 10 / 3,  # 0, clamped at 10, 0
            "papo/k3_clamp_rate": 1 / 3,
            "papo/entropy_masked": 2 / 3,
            "papo/entropy_original": 13 / 3,
        },
        abs=ATOL,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gamma": -0.1}, "gamma=-0.1 .*must be at least 0"),
        ({"gamma_end": -0.1}, "gamma_end=-0.1 must be at least 0"),
        ({"anneal_steps": 0}, "anneal_steps=0 at least 1"),
        ({"masked_grad": True, "per_response": True}, "set per_response=false"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        PAPO(**options)


def test_a_mask_of_an_impossible_share_is_refused() -> None:
    with pytest.raises(UserError, match=r"p in 0..1, not p=1.5"):
        PixelMask(1.5)
