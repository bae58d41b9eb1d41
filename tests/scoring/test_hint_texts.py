"""Which answers are shown to whom, against a literal reading; joining wrong hints; the schedule; mistakes."""

from __future__ import annotations

import math

import pytest
import torch
from tests.callbacks.hinted_case import (
    HINT,
    SAME,
    make_rollout,
    permuted,
    pick,
    random_case,
    rejected_line,
    responses_of,
    right_line,
    wrong_lines,
)

from mmcredit.scoring.hints import (
    answer_key,
    check_strength,
    check_teacher,
    gold_hints,
    hinted,
    linear_decay,
    log_mean_exp,
    mean_logp,
    mixed_advantage,
    only,
    rejected_hints,
    sibling_hints,
    sign_weight,
    wrong_answers,
)
from mmcredit.types import Sample, UserError


@pytest.mark.parametrize("seed", range(60))
def test_hints_against_a_literal_reading(seed):
    rollout, _ = random_case(seed)
    gold, siblings, rejected = gold_hints(rollout), sibling_hints(rollout, 4), rejected_hints(rollout)
    for b, g, _ in responses_of(rollout):
        assert gold.lines[b][g] == right_line(rollout, b)
        wrong = wrong_lines(rollout, b, g)[:4]
        assert [hints.lines[b][g] for hints in siblings] == wrong + [None] * (4 - len(wrong))
        assert rejected.lines[b][g] == rejected_line(rollout, b, g)


@pytest.mark.parametrize("seed", range(10))
def test_the_order_in_a_group_is_irrelevant(seed):
    rollout, _ = random_case(seed, group=5)
    order = [3, 1, 4, 0, 2]
    other = permuted(rollout, order)
    for build in (lambda r: sibling_hints(r, 3), lambda r: [rejected_hints(r)]):
        for before, after in zip(build(rollout), build(other), strict=True):
            assert after.lines == tuple(pick(lines, order) for lines in before.lines)


def test_cases_by_hand():
    answers = ["red", "Blue", "blue", "green", None, "2"]
    correct = [True, False, False, False, False, False]
    rollout = make_rollout([Sample("a", (), "q", "Red")], [[1] * 6], [answers], [correct])
    first, second, third, fourth = (hints.lines[0] for hints in sibling_hints(rollout, 4))
    assert first == tuple(HINT + a for a in ("Blue", "2", "2", "Blue", "Blue", "Blue"))  # as often said: B before b
    assert second == (HINT + "2", HINT + "green", HINT + "green", HINT + "2", HINT + "2", HINT + "green")
    assert third == (HINT + "green", None, None, None, HINT + "green", None)
    assert fourth == (None,) * 6
    assert gold_hints(rollout, "It is {answer}!").lines == (("It is Red!",) * 6,)


def test_no_wrong_sibling_and_all_wrong_alike():
    samples = [Sample("right", (), "q", "1"), Sample("wrong", (), "q", "1"), Sample("missing", (), "q", "1")]
    answers = [["1", "1", "1"], ["3", "three", "3.0"], [None, None, None]]
    rollout = make_rollout(samples, [[1] * 3] * 3, answers, [[True] * 3, [False] * 3, [False] * 3])
    assert not hinted(rollout, sibling_hints(rollout, 1)[0]).any()
    assert rejected_hints(rollout).lines == ((None,) * 3, (HINT + "3.0", HINT + "3", HINT + "3"), (None,) * 3)


def test_the_lowest_reward_decides_which_answer_is_rejected():
    answers, correct = [["1", "2", "2", "3"]], [[True, False, False, False]]
    rollout = make_rollout([Sample("a", (), "q", "1")], [[1] * 4], answers, correct, [[1.0, 0.1, 0.1, 0.0]])
    assert rejected_hints(rollout).lines == ((HINT + "3", HINT + "3", HINT + "3", HINT + "2"),)


@pytest.mark.parametrize(("answer", "same"), SAME.items())
def test_which_answers_are_the_same(answer, same):
    assert answer_key(answer) == (same or "")


def test_an_answer_the_verifier_missed_is_no_wrong_hint():
    assert wrong_answers(["1/2", "0.5", "3"], [False] * 3, "0.50") == {"3": "3"}


def test_only_keeps_the_hints_of_some_responses():
    rollout = make_rollout([Sample("a", (), "q", "1")], [[1, 1]], [["1", "2"]], [[True, False]])
    kept = only(gold_hints(rollout), torch.tensor([[False, True]]))
    assert kept.lines == ((None, HINT + "1"),) and hinted(rollout, kept).tolist() == [[False, True]]


def test_joining_wrong_hints_by_hand():
    logp = torch.tensor([-1.0, -2.0, -9.0]).view(3, 1, 1, 1).expand(3, 1, 3, 2)
    given = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])[:, None]
    mean = math.log((math.exp(-1) + math.exp(-2)) / 2)
    for join, both in ((log_mean_exp, mean), (mean_logp, -1.5)):
        expected = torch.tensor([both, -1.0, 0.0])[None, :, None].expand(1, 3, 2)
        torch.testing.assert_close(join(logp, given), expected)


def test_weights_and_mixing_by_hand():
    signal, advantage = torch.tensor([0.1, -0.1, 5.0, -5.0, 0.1, 5.0]), torch.tensor([2.0, 2.0, 2.0, 2.0, -2.0, 0.0])
    weights = torch.tensor([math.exp(0.1), math.exp(-0.1), 1.2, 0.8, math.exp(-0.1), 1.0])
    torch.testing.assert_close(sign_weight(signal, advantage, 0.8, 1.2), weights)
    mixed = advantage * (0.75 + 0.25 * weights)
    torch.testing.assert_close(mixed_advantage(advantage, signal, 0.25, 0.8, 1.2), mixed)


def test_the_schedule():
    assert [linear_decay(0.5, 50, step) for step in (0, 25, 50, 80)] == [0.5, 0.25, 0.0, 0.0]
    assert linear_decay(0.5, None, 1000) == 0.5


def test_mistakes_are_named():
    with pytest.raises(UserError, match=r"callbacks.x.template='Answer: ' must contain \{answer\}"):
        check_teacher("x", "Answer: ", 10)
    for every in (0, None, 1.5):
        with pytest.raises(UserError, match=f"callbacks.x.refresh_every={every} must be a whole number of at least 1"):
            check_teacher("x", HINT + "{answer}", every)
    with pytest.raises(UserError, match=r"weight_low=1.1, callbacks.x.weight_high=1.2: need 0 < weight_low <= 1"):
        check_teacher("x", HINT + "{answer}", 10, 1.1, 1.2)
    with pytest.raises(UserError, match=r"callbacks.x.lam=2 must be in 0..1, callbacks.x.decay_steps=0 at least 1"):
        check_strength("x", 2, 0)
