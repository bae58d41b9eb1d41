"""Hinted prompts are those of a question that carries the hint; the teacher is a copy that is refreshed on time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tests.conftest import TEMPLATE

from mmcredit.credit import CreditCallback
from mmcredit.data.encode import Encoder
from mmcredit.models.load import frozen_copy
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import Hints, View, Weights
from mmcredit.teacher import Teacher, refresh_interval
from mmcredit.types import UserError


def lines(rollout, text="candidate: {}"):
    """Hints in which some responses share a line, others have none."""
    b, g, _ = rollout.shape
    return tuple(tuple(None if (i + j) % 4 == 3 else text.format((i + j) % 2) for j in range(g)) for i in range(b))


def test_a_hinted_prompt_is_that_of_the_hinted_question(processor, prompts):
    encoder = Encoder(processor, TEMPLATE)
    for sample, ids in zip(prompts.samples, prompts.ids, strict=True):
        for hint in ("candidate: 3", "", "a\nb <|im_end|> é"):
            expected = encoder([replace(sample, question=f"{sample.question}\n{hint}")]).ids[0]
            assert encoder.hinted(sample, ids, hint).tolist() == expected.tolist()


def test_a_prompt_of_another_template_is_refused(processor, prompts):
    with pytest.raises(ValueError, match="was not encoded by this template"):
        Encoder(processor, TEMPLATE).hinted(prompts.samples[0], prompts.ids[0][:-2], "x")


@pytest.mark.parametrize("packed", [False, True])
def test_scores_under_hints_are_those_of_hinted_prompts(processor, prompts, make_rollout, make_scorer, packed):
    rollout = make_rollout(group=4)
    hints, encoder, found = lines(rollout), Encoder(processor, TEMPLATE), []
    logp = make_scorer(packed=packed).logp(rollout, View(hints=Hints(hints)))
    for b in range(4):
        for g in range(4):
            if hints[b][g] is None:
                assert not logp[b, g].any()
                continue
            sample = prompts.samples[b]
            asked = encoder([replace(sample, question=f"{sample.question}\n{hints[b][g]}")] * 4)
            alone = replace(rollout, prompts=asked)
            expected = make_scorer(packed=False).logp(alone, View())[b, g] if b == 0 else None
            found.append((b, g))
            if expected is not None:
                torch.testing.assert_close(logp[b, g], expected, atol=1e-5, rtol=0)
    assert found


def test_hints_change_scores_and_packing_does_not(make_rollout, make_scorer):
    rollout = make_rollout(group=4)
    view = View(hints=Hints(lines(rollout)))
    packed, padded = (make_scorer(packed=p).logp(rollout, view) for p in (True, False))
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=0)
    plain, hinted = make_scorer().logp(rollout, View()), (packed != 0)
    assert (plain - packed)[hinted].abs().max() > 1e-3


def test_equal_responses_under_different_hints_are_scored_apart(make_rollout, make_scorer):
    rollout = make_rollout(group=3)
    first = rollout.responses
    ids, mask = first.ids_BGT[:, :1].expand(-1, 3, -1).clone(), first.mask_BGT[:, :1].expand(-1, 3, -1).clone()
    rollout = replace(rollout, responses=replace(first, ids_BGT=ids, mask_BGT=mask))
    logp = make_scorer().logp(rollout, View(hints=Hints((("candidate: 1", "candidate: 2", "candidate: 1"),) * 4)))
    assert torch.equal(logp[:, 0], logp[:, 2]) and (logp[:, 0] - logp[:, 1]).abs().max() > 1e-3


def test_the_teacher_is_copied_on_time_and_scores_with_its_own_weights(policy, processor, make_rollout, monkeypatch):
    mine = frozen_copy(policy)
    teacher = Teacher(frozen_copy(policy), every=3)
    scorer = Scorer({Weights.OLD: mine, Weights.TEACHER: teacher.model}, Encoder(processor, TEMPLATE))
    rollout, module = make_rollout(), SimpleNamespace(policy=mine, rollout_step=0)
    monkeypatch.setattr("mmcredit.teacher.CreditModule", SimpleNamespace)
    for step in range(7):
        module.rollout_step = step
        teacher.on_train_batch_start(None, module, None, step)
        differs = scorer.logp(rollout, View()) - scorer.logp(rollout, View(weights=Weights.TEACHER))
        assert bool(differs.abs().max() > 1e-4) == (step % 3 != 0)
        with torch.no_grad():
            mine.hf.get_input_embeddings().weight.mul_(1.1)
        scorer.forget()
    assert not any(p.requires_grad for p in teacher.model.parameters())


def method(name: str, every: int | None) -> CreditCallback:
    return type(name, (CreditCallback,), {"refresh_every": every})()


def test_methods_of_a_run_share_one_teacher():
    assert refresh_interval([]) is None and refresh_interval([method("A", None)]) is None
    assert refresh_interval([method("A", 5), method("B", None), method("C", 5)]) == 5
    with pytest.raises(UserError, match=r"callbacks.a.refresh_every=5, callbacks.b.refresh_every=6: .*same value"):
        refresh_interval([method("A", 5), method("B", 6)])
    with pytest.raises(UserError, match="refresh_every=0 must be at least 1"):
        refresh_interval([method("A", 0)])
