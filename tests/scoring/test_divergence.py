"""Divergences of whole distributions: literal formulas, full logits of the plain model, gradients, and the bound on
what is held at once."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor

from mmcredit.callbacks.opsd import OPSD
from mmcredit.models import vlm
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.divergence import Divergence, forward_kl, jensen_shannon, reverse_kl
from mmcredit.scoring.edits import Blank, PixelMask
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import Hints, Scored, View, Weights
from mmcredit.types import Rollout, UserError

ATOL = 1e-6  # float64 against Python floats
TOLERANCE = 2e-5  # nats, float32 models
LINES = [[f"the answer is {b}" if g else "other" for g in range(4)] for b in range(4)]
LINES[1][2] = LINES[2][0] = None  # responses without a hint
HINTS = Hints(tuple(map(tuple, LINES)))
VIEWS = {
    "masked": View(image=PixelMask(0.5, (0,))),
    "hinted reference": View(Weights.REFERENCE, hints=HINTS),
    "hinted blind teacher": View(Weights.TEACHER, Blank(), hints=HINTS),
    "answer": View(Weights.REFERENCE, scored=Scored.ANSWER),
}
DIVERGENCES: dict[str, Divergence] = {
    "forward": forward_kl, "reverse": reverse_kl, "jsd": jensen_shannon, "jsd .1": partial(jensen_shannon, beta=0.1),
}  # fmt: skip


def literal(kind: str, p: list[float], q: list[float]) -> float:
    """p the policy, q the other: sums over the vocabulary, METHODS section 8."""

    def kl(a: list[float], b: list[float]) -> float:
        return sum(x * math.log(x / y) for x, y in zip(a, b, strict=True) if x > 0)

    if kind in ("forward", "reverse"):
        return kl(q, p) if kind == "forward" else kl(p, q)
    beta = 0.5 if kind == "jsd" else 0.1
    m = [beta * y + (1 - beta) * x for x, y in zip(p, q, strict=True)]
    return beta * kl(q, m) + (1 - beta) * kl(p, m)


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_equals_the_literal_sum(kind: str) -> None:
    logits = 4 * torch.randn(2, 7, 50, generator=torch.Generator().manual_seed(0)).double()
    policy, other = logits.log_softmax(-1)
    found = DIVERGENCES[kind](policy, other)
    pairs = zip(policy.exp().tolist(), other.exp().tolist(), strict=True)
    torch.testing.assert_close(found, found.new_tensor([literal(kind, *pair) for pair in pairs]), atol=ATOL, rtol=0)
    assert (found > 0).all() and float(DIVERGENCES[kind](policy, policy).abs().max()) < 1e-12


def test_a_token_that_one_side_all_but_excludes_stays_finite() -> None:
    sure = torch.tensor([[200.0, 0.0]], requires_grad=True)
    for kind, divergence in DIVERGENCES.items():
        value = divergence(sure.log_softmax(-1), torch.tensor([[-200.0, 0.0]]).log_softmax(-1))
        value.sum().backward()
        assert torch.isfinite(value).all() and torch.isfinite(sure.grad).all(), kind


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.5])
def test_ends_of_beta_are_refused(beta: float) -> None:
    with pytest.raises(UserError, match=r"0 < beta < 1, not beta=.*forward_kl and reverse_kl"):
        OPSD(partial(jensen_shannon, beta=beta))


@pytest.fixture(scope="module")
def rollout(make_rollout) -> Rollout:
    """Responses that begin alike, so that packed rows share more than the prompt; a two-token answer."""
    rollout = make_rollout(seed=3, group=4)
    ids, mask = rollout.responses.ids_BGT.clone(), rollout.mask_BGT
    ids[:, 1, :2] = torch.where(mask[:, 1, :2], ids[:, 0, :2], 0)
    ids[0, 3] = ids[0, 2] * mask[0, 3]
    answer = torch.zeros_like(mask)
    answer[..., 1:3] = mask[..., 1:3]
    return replace(
        rollout,
        responses=replace(rollout.responses, ids_BGT=ids),
        grades=replace(rollout.grades, answer_BGT=answer),
    )


def full(scorer: Scorer, rollout: Rollout, view: View, b: int, g: int) -> Tensor:
    """[T_i, V] log-probs of one response alone, from full logits over its whole row."""
    model, prompts = scorer.models[view.weights], rollout.prompts
    ids, y = prompts.ids[b], rollout.responses.ids_BGT[b, g][rollout.mask_BGT[b, g]]
    if view.hints is not None:
        ids = scorer.encoder.hinted(prompts.samples[b], ids, view.hints.lines[b][g])
    row = torch.cat([ids, y])[None]
    pictures = {}
    if prompts.pixels[b] is not None:
        pixels = view.image.pixels(prompts.pixels[b], scorer.sight._picture(prompts, b))
        kinds = (row == model.hf.config.image_token_id).int()
        pictures = {"pixel_values": pixels, "image_grid_thw": prompts.grids[b], "mm_token_type_ids": kinds}
    model.hf.model.rope_deltas = None
    logits = model.hf(input_ids=row, attention_mask=torch.ones_like(row), **pictures).logits[0]
    return (logits[len(ids) - 1 : -1] / scorer.temperature).log_softmax(-1)


def scored(rollout: Rollout, view: View) -> Tensor:
    keep = rollout.grades.answer_BGT if view.scored is Scored.ANSWER else rollout.mask_BGT
    given = [[view.hints is None or view.hints.lines[b][g] is not None for g in range(4)] for b in range(4)]
    return keep & torch.tensor(given)[..., None]


def expected(scorer: Scorer, rollout: Rollout, view: View, divergence: Divergence) -> Tensor:
    """[B, G, T] literal, the policy's side with gradients."""
    rows, keep = [], scored(rollout, view)
    for b in range(4):
        for g in range(4):
            row, length = torch.zeros(rollout.shape[2]), int(rollout.mask_BGT[b, g].sum())
            if keep[b, g].any():
                with torch.no_grad():
                    other = full(scorer, rollout, view, b, g)
                row = torch.cat([divergence(full(scorer, rollout, View(), b, g), other), row[length:]])
            rows.append(row)
    return torch.stack(rows).view(rollout.shape) * keep


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_kl_equals_full_logits_of_the_plain_model(rollout, make_scorer, name, packed):
    scorer = make_scorer(packed=packed, temperature=0.7)
    found = scorer.kl(rollout, View(), VIEWS[name])
    with torch.no_grad():
        want = expected(scorer, rollout, VIEWS[name], reverse_kl)
    assert want[scored(rollout, VIEWS[name])].max() > 1e-2 and not found.requires_grad
    torch.testing.assert_close(found, want, atol=TOLERANCE, rtol=1e-4)
    assert not found[~scored(rollout, VIEWS[name])].any()
    other_way = scorer.kl(rollout, VIEWS[name], View())
    assert (other_way - found).abs().max() > 1e-3 and (other_way >= -1e-6).all()


def test_kl_of_some_responses_and_of_a_small_budget(rollout, make_scorer):
    whole = make_scorer().kl(rollout, View(), VIEWS["masked"])
    where = torch.zeros(4, 4, dtype=torch.bool)
    where[1, 2] = where[3, 0] = True
    some = make_scorer(token_budget=1).kl(rollout, View(), VIEWS["masked"], where)
    torch.testing.assert_close(some[where], whole[where], atol=TOLERANCE, rtol=0)
    assert not some[~where].any()
    assert not make_scorer().kl(rollout, View(), VIEWS["masked"], where & False).any()


def test_kl_stands_beside_log_probs_of_the_same_rollout(rollout, make_scorer):
    """Views are counted, and what was scored before is still there."""
    scorer, masked = make_scorer(), VIEWS["masked"]
    before = scorer.logp(rollout, masked)
    scorer.kl(rollout, View(), masked)
    assert torch.equal(scorer.logp(rollout, masked), before)
    assert scorer.passes == {masked: 2, View(): 1}


def gradient(policy: VisionLanguageModel, loss: Tensor) -> Tensor:
    policy.zero_grad()
    loss.backward()
    found = torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])
    policy.zero_grad()
    return found


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", ["masked", "hinted reference"])
@pytest.mark.parametrize("kind", DIVERGENCES)
def test_gradient_equals_the_literal_one(policy, rollout, make_scorer, name, packed, kind):
    """With and without a pass of the same micro-batch before; the policy's own weights on the other side get none."""
    scorer, weight = make_scorer(packed=packed), torch.linspace(-1, 1, rollout.mask_BGT.numel()).view(rollout.shape)
    want = expected(scorer, rollout, VIEWS[name], DIVERGENCES[kind])
    want_gradient = gradient(policy, (want * weight).sum())
    spent = []
    for before in (False, True):
        if before:
            scorer.train_scores(rollout)
        tokens = scorer.tokens["computed"]
        found = scorer.train_divergence(rollout, VIEWS[name], DIVERGENCES[kind])
        spent.append(scorer.tokens["computed"] - tokens)
        torch.testing.assert_close(found, want.detach(), atol=TOLERANCE, rtol=1e-4)
        found_gradient = gradient(policy, (found * weight).sum())
        assert (found_gradient - want_gradient).norm() <= 1e-4 * want_gradient.norm()
    assert spent[1] < spent[0]
    assert all(p.grad is None for model in list(scorer.models.values())[1:] for p in model.parameters())


def test_a_pass_with_gradients_is_used_once_and_only_for_its_own_rows(rollout, make_scorer):
    scorer, part = make_scorer(), rollout.select(slice(0, 2))
    scorer.train_scores(rollout)
    alone = scorer.train_divergence(part, VIEWS["masked"], forward_kl)
    torch.testing.assert_close(
        alone, scorer.train_divergence(rollout, VIEWS["masked"], forward_kl)[:2], atol=TOLERANCE, rtol=0
    )
    scorer.train_scores(rollout)
    for _ in range(2):
        scorer.train_divergence(rollout, VIEWS["masked"], forward_kl).sum().backward()
    scorer.policy.zero_grad()


def test_nothing_to_score_is_zero(rollout, make_scorer):
    nobody = View(Weights.REFERENCE, hints=Hints(((None,) * 4,) * 4))
    found = make_scorer().train_divergence(rollout, nobody, forward_kl)
    assert found.shape == rollout.shape and not found.any()


@pytest.mark.parametrize("tokens", [1, 5])
def test_no_more_logits_are_held_than_the_bound(policy, rollout, make_scorer, monkeypatch, tokens):
    """In both directions: forward, and the recomputation of backward."""
    scorer, held = make_scorer(), []
    want = scorer.train_divergence(rollout, VIEWS["masked"], forward_kl)
    want_gradient = gradient(policy, want.sum())
    monkeypatch.setattr(vlm, "HEAD_ELEMENTS", 2 * tokens * policy.vocabulary)
    logits = VisionLanguageModel.logits

    def watched(self, hidden):
        held.append(len(hidden))
        return logits(self, hidden)

    monkeypatch.setattr(VisionLanguageModel, "logits", watched)
    found = scorer.train_divergence(rollout, VIEWS["masked"], forward_kl)
    forward = len(held)
    found_gradient = gradient(policy, found.sum())
    assert max(held) <= tokens and len(held) == 2 * forward > 2
    assert sum(held[:forward]) <= 2 * int(rollout.mask_BGT.sum())  # equal beginnings once
    torch.testing.assert_close(found, want, atol=1e-6, rtol=0)
    assert (found_gradient - want_gradient).norm() <= 1e-5 * want_gradient.norm()
