"""Every method in configs/callbacks keeps the contract, alone and on awkward groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import hydra
import pytest
import torch
from hydra.utils import instantiate

import mmcredit.configs
from mmcredit.credit import CreditCallback, Record, advantage_chain, reward_chain
from mmcredit.functional import group_advantage
from mmcredit.scoring.views import View
from mmcredit.types import Rollout

NAMES = sorted(p.stem for p in (Path(mmcredit.configs.__file__).parent / "callbacks").glob("*.yaml"))


def build(name: str) -> CreditCallback:
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = hydra.compose("fit", overrides=[f"callbacks=[{name}]", "run_dir=."])
    return instantiate(config.callbacks[name])


def graded(rollout: Rollout, correct: torch.Tensor, scorer) -> Rollout:
    """The rollout with these answers right, up to three wrong ones, a two-token answer span, and its own log-probs."""
    answer = torch.zeros_like(rollout.mask_BGT)
    answer[..., :2] = rollout.mask_BGT[..., :2]
    grades = replace(rollout.grades, correct_BG=correct, reward_BG=correct.float(), answer_BGT=answer)
    said = [["right" if right else f"wrong {g % 3}" for g, right in enumerate(group)] for group in correct.tolist()]
    grades = replace(grades, answers=tuple(map(tuple, said)))
    rollout = replace(rollout, grades=grades, reward_BG=correct.float())
    return replace(rollout, logp_BGT=scorer.logp(rollout, View()).clone())


def assign(method: CreditCallback, rollout: Rollout, scorer) -> tuple[torch.Tensor, torch.Tensor]:
    rewarded = reward_chain([method], rollout, scorer, Record())
    advantage = group_advantage(rewarded.reward_BG)
    return rewarded.reward_BG, advantage_chain([method], rewarded, advantage, scorer, Record())


@pytest.mark.parametrize("name", NAMES)
def test_shape_finite_and_zero_outside_the_mask(name, make_rollout, make_scorer):
    """Text-only prompt, one-token responses, all-right and all-wrong groups included; the chain itself checks."""
    scorer = make_scorer()
    correct = torch.tensor([[True, False, True], [True, True, True], [False, True, False], [False, False, False]])
    reward, advantage = assign(build(name), graded(make_rollout(), correct, scorer), scorer)
    assert reward.shape == (4, 3) and advantage.shape == make_rollout().shape


@pytest.mark.parametrize("name", NAMES)
def test_permuting_a_group_permutes_the_result(name, make_rollout, make_scorer):
    correct = torch.tensor([[True, False, True, False]] * 4)
    rollout = graded(make_rollout(seed=2, group=4), correct, make_scorer())
    order = [2, 0, 3, 1]
    responses = replace(
        rollout.responses,
        ids_BGT=rollout.responses.ids_BGT[:, order],
        mask_BGT=rollout.responses.mask_BGT[:, order],
        texts=tuple(tuple(texts[i] for i in order) for texts in rollout.responses.texts),
        spans=tuple(tuple(spans[i] for i in order) for spans in rollout.responses.spans),
    )
    grades = replace(
        rollout.grades,
        reward_BG=rollout.grades.reward_BG[:, order],
        correct_BG=correct[:, order],
        format_BG=rollout.grades.format_BG[:, order],
        answers=tuple(tuple(a[i] for i in order) for a in rollout.grades.answers),
        answer_BGT=rollout.grades.answer_BGT[:, order],
    )
    permuted = Rollout(rollout.prompts, responses, grades, 0, rollout.logp_BGT[:, order], rollout.reward_BG[:, order])
    reward, advantage = assign(build(name), rollout, make_scorer())
    reward_p, advantage_p = assign(build(name), permuted, make_scorer())
    torch.testing.assert_close(reward_p, reward[:, order], atol=1e-4, rtol=0)
    torch.testing.assert_close(advantage_p, advantage[:, order], atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_packing_and_budget_change_nothing(name, make_rollout, make_scorer):
    correct = torch.tensor([[True, False, True]] * 4)
    rollout = graded(make_rollout(), correct, make_scorer())
    expected = assign(build(name), rollout, make_scorer(packed=False))
    for options in ({"packed": True}, {"packed": True, "token_budget": 1}):
        found = assign(build(name), rollout, make_scorer(**options))
        torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", NAMES)
def test_state_round_trip_and_paper_link(name):
    method, fresh = build(name), build(name)
    fresh.load_state_dict(method.state_dict())
    assert fresh.state_dict() == method.state_dict()
    assert method.paper.startswith("https://")


class Broken(CreditCallback):
    paper = "https://example.org"

    def __init__(self, result: torch.Tensor) -> None:
        self.result = result

    def on_reward(self, rollout, scorer, record):
        return self.result

    def on_advantage(self, rollout, advantage_BGT, scorer, record):
        return self.result


@pytest.mark.parametrize(
    ("result", "message"),
    [(torch.zeros(4, 2), r"returned \(4, 2\), expected \(4, 3\)"), (torch.full((4, 3), torch.nan), "finite")],
)
def test_a_bad_reward_is_caught_by_name(make_rollout, make_scorer, result, message):
    with pytest.raises(ValueError, match=f"Broken.on_reward.*{message}"):
        reward_chain([Broken(result)], make_rollout(), make_scorer(), Record())


def test_credit_outside_the_mask_is_caught_by_name(make_rollout, make_scorer):
    rollout = make_rollout()
    with pytest.raises(ValueError, match=r"Broken.on_advantage .*outside the response mask"):
        advantage_chain([Broken(torch.ones(rollout.shape))], rollout, torch.zeros(4, 3), make_scorer(), Record())


def test_no_method_leaves_reward_and_spread_advantage(make_rollout, make_scorer):
    rollout, advantage = make_rollout(), torch.arange(12.0).view(4, 3)
    assert reward_chain([], rollout, make_scorer(), Record()) is rollout
    expected = advantage[..., None] * rollout.mask_BGT
    assert torch.equal(advantage_chain([], rollout, advantage, make_scorer(), Record()), expected)
