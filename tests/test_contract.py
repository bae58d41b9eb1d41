"""Every method in configs/callbacks keeps the contract, alone and on awkward groups."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from methods import NAMES, build, build_chain, cut, graded

from mmcredit.credit import CreditCallback, Record, advantage_chain, reward_chain
from mmcredit.functional import group_advantage
from mmcredit.models.lockstep import Pace
from mmcredit.rollout.parts import take
from mmcredit.scoring.views import View
from mmcredit.types import Rollout


def assign(method: CreditCallback, rollout: Rollout, scorer) -> tuple[torch.Tensor, torch.Tensor]:
    method.on_rollout(rollout, Record())
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
def test_empty_and_one_token_responses(name, make_rollout, make_scorer):
    """A right and a wrong one of each, and a group of nothing else."""
    scorer, rollout = make_scorer(), make_rollout()
    for b, g, length in ((0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1), (3, 0, 0), (3, 1, 0), (3, 2, 0)):
        rollout = cut(rollout, b, g, length)
    rollout = graded(rollout, torch.tensor([[True, False, True]] * 4), scorer)
    method = build(name)
    _, advantage = assign(method, rollout, scorer)
    assert not advantage[0, :2].any() and not advantage[3].any()
    token_loss = method.on_loss(rollout, rollout.logp_BGT, scorer, Record())
    assert token_loss is None or torch.isfinite(token_loss).all()


@pytest.mark.parametrize("name", NAMES)
def test_numbers_of_tokens_have_the_rollouts_shape_and_keeping_them_changes_nothing(name, make_rollout, make_scorer):
    scorer, record = make_scorer(), Record(per_token={})
    rollout = graded(make_rollout(), torch.tensor([[True, False, True]] * 4), scorer)
    advantage = group_advantage(rollout.reward_BG)
    kept = advantage_chain([build(name)], rollout, advantage, scorer, record)
    assert torch.equal(kept, advantage_chain([build(name)], rollout, advantage, scorer, Record()))
    for key, values in record.per_token.items():
        assert values.shape == rollout.shape and torch.isfinite(values.float()).all(), key
    keys = list(record.per_token)
    assert keys[0] == "credit/parent" and torch.equal(record.per_token[keys[-1]], kept)


@pytest.mark.parametrize("name", NAMES)
def test_no_advantage_stays_exactly_none(name, make_rollout, make_scorer):
    """Groups whose rewards are all equal, and single responses that earned nothing."""
    scorer = make_scorer()
    correct = torch.tensor([[True] * 3, [False] * 3, [True, False, True], [True, True, False]])
    rollout = graded(make_rollout(), correct, scorer)
    advantage = group_advantage(rollout.reward_BG)
    advantage[3, 0] = 0.0
    found = advantage_chain([build(name)], rollout, advantage, scorer, Record())
    assert not advantage[:2].any() and not found[:2].any() and not found[3, 0].any()


@pytest.mark.parametrize("name", NAMES)
def test_extra_views_are_those_that_are_scored(name, make_rollout, make_scorer):
    """Hints aside, which nobody knows before a rollout; where no response has one, views fall into one."""
    scorer, method = make_scorer(), build(name)
    rollout = graded(make_rollout(), torch.tensor([[True, False, True]] * 4), scorer)
    assign(method, rollout, scorer)
    method.on_loss(rollout, rollout.logp_BGT, scorer, Record())
    scored = [view for view in scorer.passes if view != View()]
    promised = list(method.extra_views(scorer.seed))
    assert len(set(promised)) == len(promised) >= len(scored)
    assert len(promised) == len(scored) or any(view.hints for view in promised)
    assert {replace(view, hints=None) for view in promised} == {replace(view, hints=None) for view in scored}


def test_methods_that_mask_alike_share_one_pass(make_rollout, make_scorer):
    """Three methods, one view, and no token more than VPPO alone."""
    chain = build_chain("vppo", "papo", "pacg", overrides=("callbacks.papo.corruption.p=0.5",))
    alone, together = make_scorer(), make_scorer()
    rollout = graded(make_rollout(), torch.tensor([[True, False, True]] * 4), together)
    for scorer, methods in ((alone, chain[:1]), (together, chain)):
        scorer.forget()
        scorer.tokens.clear()
        advantage_chain(methods, rollout, group_advantage(rollout.reward_BG), scorer, Record())
    assert together.passes == alone.passes and sum(together.passes.values()) == 1
    assert together.tokens == alone.tokens
    assert set(together.passes) == {view for method in chain for view in method.extra_views(together.seed)}


@pytest.mark.parametrize("name", NAMES)
def test_a_rank_without_prompts(name, make_rollout, make_scorer):
    """Dynamic sampling may leave a rank with none; its hooks are called for the sake of the others."""
    nothing, scorer, record = take(make_rollout(), []), make_scorer(), Record()
    chain = [build(name)]
    chain[0].on_rollout(nothing, record)
    rewarded = reward_chain(chain, nothing, scorer, record)
    advantage = advantage_chain(chain, rewarded, torch.zeros(0, 3), scorer, record)
    assert rewarded.reward_BG.shape == (0, 3) and advantage.shape == nothing.shape


class Stages(Pace):
    """Counts the stages that are entered, those within another left out."""

    def __init__(self) -> None:
        self.depth = self.entered = 0

    @contextmanager
    def together(self):
        self.depth += 1
        self.entered += self.depth == 1
        yield
        self.depth -= 1


@pytest.mark.parametrize("name", NAMES)
def test_every_rank_enters_the_same_stages(name, make_rollout, make_scorer, policy, monkeypatch):
    """Whatever there is to score, nothing included: where models are shared out, all ranks score together."""
    full, entered = graded(make_rollout(), torch.tensor([[True, False, True]] * 4), make_scorer()), []
    for rollout in (full, take(full, [2]), take(full, [])):
        monkeypatch.setattr(policy, "pace", stages := Stages())
        scorer, method = make_scorer(), build(name)
        method.on_rollout(rollout, Record())
        rewarded = reward_chain([method], rollout, scorer, Record())
        advantage_chain([method], rewarded, torch.ones(len(rollout.prompts), 3), scorer, Record())
        entered.append(stages.entered)
    assert len(set(entered)) == 1


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
