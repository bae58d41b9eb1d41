"""Scores do not depend on padding, packing, batching or neighbours; they do depend on the picture."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mmcredit.models import vlm
from mmcredit.models.feature_cache import FeatureCache
from mmcredit.models.layout import Row, common_prefixes
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.edits import Blank, FeatureNull, Original, PixelMask
from mmcredit.scoring.replace import Evidence, FeatureReplace, Reference
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.startup import check_packing, check_sight
from mmcredit.scoring.views import Scored, View
from mmcredit.types import Prompts, Rollout, UserError

TOLERANCE = 1e-5  # nats, float32
VIEWS = [
    View(),
    View(image=PixelMask(0.5, (0,))),
    View(image=Blank()),
    View(image=FeatureNull()),
    View(image=FeatureReplace(Evidence())),
    View(image=FeatureReplace(Reference(1))),
]


def alone(policy: VisionLanguageModel, rollout: Rollout, b: int, g: int) -> torch.Tensor:
    """One response through Hugging Face's own forward: no wrapper, no padding, no sharing."""
    prompts = rollout.prompts
    y = rollout.responses.ids_BGT[b, g][rollout.mask_BGT[b, g]]
    ids = torch.cat([prompts.ids[b], y])[None]
    pictures = {}
    if prompts.pixels[b] is not None:
        kinds = (ids == policy.hf.config.image_token_id).int()
        pictures = {"pixel_values": prompts.pixels[b], "image_grid_thw": prompts.grids[b], "mm_token_type_ids": kinds}
    policy.hf.model.rope_deltas = None
    with torch.no_grad():
        logits = policy.hf(input_ids=ids, attention_mask=torch.ones_like(ids), **pictures).logits[0]
    logp = logits[len(prompts.ids[b]) - 1 : -1].log_softmax(-1)
    return logp.gather(1, y[:, None])[:, 0]


@pytest.mark.parametrize("packed", [False, True])
def test_logp_equals_each_response_alone_through_the_plain_model(policy, make_rollout, make_scorer, packed):
    rollout = make_rollout()
    logp = make_scorer(packed=packed).logp(rollout, View())
    for b in range(4):
        for g in range(3):
            found = logp[b, g][rollout.mask_BGT[b, g]]
            torch.testing.assert_close(found, alone(policy, rollout, b, g), atol=TOLERANCE, rtol=0)
    assert not logp[~rollout.mask_BGT].any()


@pytest.mark.parametrize("left_pad", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_padding_side_changes_nothing(policy, make_rollout, left_pad, packed):
    rollout = make_rollout()
    features = policy.features(rollout.prompts.pixels, rollout.prompts.grids)
    positions = policy.positions(rollout.prompts)
    ys = [
        [y[m] for y, m in zip(*pair, strict=True)]
        for pair in zip(rollout.responses.ids_BGT, rollout.mask_BGT, strict=True)
    ]
    rows = []
    for b, group in enumerate(ys):
        shared = [tuple(group)] if packed else [(y,) for y in group]
        rows += [Row(rollout.prompts.ids[b], positions[b], features[b], part) for part in shared]
    with torch.no_grad():
        together = policy.scores(rows, left_pad=left_pad)
        apart = [policy.scores([row]) for row in rows]
    for i, name in enumerate(("logp", "entropy")):
        expected = torch.cat([score[i] for score in apart])
        torch.testing.assert_close(together[i], expected, atol=TOLERANCE, rtol=0, msg=name)


@pytest.mark.parametrize("view", VIEWS, ids=lambda v: type(v.image).__name__)
def test_packed_equals_padded_under_every_view(make_rollout, make_scorer, view):
    rollout = make_rollout(seed=3, group=4)
    packed, padded = (make_scorer(packed=p).logp(rollout, view) for p in (True, False))
    torch.testing.assert_close(packed, padded, atol=TOLERANCE, rtol=0)


def test_a_changed_token_changes_no_other_response(make_rollout, make_scorer):
    rollout = make_rollout()
    ids = rollout.responses.ids_BGT.clone()
    ids[0, 1, 0] = 40 if ids[0, 1, 0] != 40 else 41
    changed = replace(rollout, responses=replace(rollout.responses, ids_BGT=ids))
    for packed in (False, True):
        before, after = (make_scorer(packed=packed).logp(r, View()) for r in (rollout, changed))
        same = torch.ones(before.shape[:2], dtype=torch.bool)
        same[0, 1] = False
        torch.testing.assert_close(after[same], before[same], atol=1e-6, rtol=0)
        assert (after[0, 1] - before[0, 1]).abs().max() > 1e-3


def test_token_budget_changes_nothing(make_rollout, make_scorer):
    rollout = make_rollout()
    whole, cut = (make_scorer(token_budget=n).logps(rollout, VIEWS) for n in (10**6, 1))
    for a, b in zip(whole, cut, strict=True):
        torch.testing.assert_close(a, b, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize(
    ("prompt", "lengths", "budget", "size"),
    [
        (100, [4] * 8, 10**6, 8),  # long prompt, short responses: all share
        (100, [4] * 8, 116, 4),  # the budget holds four
        (100, [4] * 6, 116, 3),  # two equal rows rather than 4 + 2
        (100, [4] * 8, 1, 1),  # one response always fits
        (10, [3000] * 8, 10**6, 1),  # long responses: attention over the others costs more than the prompt
        (100, [5], 10**6, 1),
    ],
)
def test_cheapest_sharing(policy, prompt, lengths, budget, size):
    assert policy.cheapest_sharing(prompt, lengths, [0] * len(lengths), budget) == size


def test_what_responses_share_counts_once_in_the_cost(policy):
    """Eight responses of 40 tokens that share 36 fit a budget that holds two of them apart."""
    assert policy.cheapest_sharing(10, [40] * 8, [0] + [36] * 7, 90) == 8
    assert policy.cheapest_sharing(10, [40] * 8, [0] * 8, 90) == 2


def test_rows_split_by_the_budget_keep_to_it_and_change_nothing(policy, make_rollout, make_scorer, monkeypatch):
    rollout = make_rollout(seed=5, group=6)
    expected = make_scorer().logp(rollout, View())
    budget, seen = 60 + 20, []
    whole = VisionLanguageModel.scores

    def watched(self, rows, *options):
        seen.extend((row.tokens, len(row.responses)) for row in rows)
        return whole(self, rows, *options)

    monkeypatch.setattr(VisionLanguageModel, "scores", watched)
    found = make_scorer(token_budget=budget).logp(rollout, View())
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    assert any(1 < shared < 6 for _, shared in seen)
    assert all(tokens <= budget or shared == 1 for tokens, shared in seen)


def test_tokens_are_counted(make_rollout, make_scorer):
    rollout, scorer = make_rollout(), make_scorer()
    scorer.logp(rollout, View())
    prompts, lengths = [len(ids) for ids in rollout.prompts.ids], rollout.mask_BGT.sum(-1)
    assert scorer.tokens["computed"] == sum(prompts) + int(lengths.sum())
    assert scorer.tokens["padded"] == sum(3 * (p + int(n.max())) for p, n in zip(prompts, lengths, strict=True))


def test_order_of_prompts_changes_nothing(make_rollout, make_scorer, prompts):
    rollout = make_rollout()
    order = [2, 0, 3, 1]
    pick = Prompts(
        *(tuple(field[i] for i in order) for field in (prompts.samples, prompts.ids, prompts.pixels, prompts.grids))
    )
    responses = replace(
        rollout.responses,
        ids_BGT=rollout.responses.ids_BGT[order],
        mask_BGT=rollout.responses.mask_BGT[order],
    )
    grades = replace(rollout.grades, answer_BGT=rollout.grades.answer_BGT[order])
    shuffled = replace(rollout, prompts=pick, responses=responses, grades=grades)
    for view in VIEWS:
        expected = make_scorer().logp(rollout, view)[order]
        torch.testing.assert_close(make_scorer().logp(shuffled, view), expected, atol=TOLERANCE, rtol=0)


def test_a_view_asked_for_twice_is_computed_once(make_rollout, make_scorer):
    rollout, scorer = make_rollout(), make_scorer()
    first = scorer.logps(rollout, [VIEWS[1], VIEWS[4]])
    again = scorer.logps(rollout, [VIEWS[4], VIEWS[1], View(image=PixelMask(0.5, (0,)))])
    assert scorer.passes == {VIEWS[1]: 1, VIEWS[4]: 1}
    assert torch.equal(first[0], again[1]) and torch.equal(first[1], again[0])
    scorer.logp(make_rollout(seed=9), VIEWS[1])
    assert scorer.passes == {VIEWS[1]: 1}


@pytest.mark.parametrize("budget", [10**6, 100, 1])
def test_equal_responses_get_exactly_equal_scores(make_rollout, make_scorer, budget):
    """In whatever rows they would stand: rounding must not tell them apart, or a dead group gets an advantage."""
    rollout = make_rollout(group=5)
    ids, mask = rollout.responses.ids_BGT.clone(), rollout.mask_BGT.clone()
    ids[:, 4], mask[:, 4] = ids[:, 0], mask[:, 0]
    twins = replace(rollout, responses=replace(rollout.responses, ids_BGT=ids, mask_BGT=mask))
    scorer = make_scorer(token_budget=budget)
    for logp in scorer.logps(twins, VIEWS):
        assert torch.equal(logp[:, 4], logp[:, 0]) and logp[:, 4].any()
    where = torch.zeros(4, 5, dtype=torch.bool)
    where[:, 4] = True
    alone = make_scorer(token_budget=budget).logp(twins, View(), where)
    torch.testing.assert_close(alone[:, 4], scorer.logp(twins, View())[:, 4], atol=TOLERANCE, rtol=0)


def test_where_skips_rows_and_a_later_call_completes_them(make_rollout, make_scorer):
    rollout, scorer = make_rollout(), make_scorer()
    where = torch.zeros(4, 3, dtype=torch.bool)
    where[1, 2] = where[3, 0] = True
    some = scorer.logp(rollout, View(), where).clone()
    full = scorer.logp(rollout, View())
    assert not some[~where].any()
    torch.testing.assert_close(some[where], full[where], atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(full, make_scorer().logp(rollout, View()), atol=TOLERANCE, rtol=0)


def test_answer_scope_scores_answer_tokens_with_the_same_values(make_rollout, make_scorer):
    rollout = make_rollout()
    answer = torch.zeros_like(rollout.mask_BGT)
    answer[..., 1:3] = rollout.mask_BGT[..., 1:3]
    rollout = replace(rollout, grades=replace(rollout.grades, answer_BGT=answer))
    scorer = make_scorer()
    scoped, full = scorer.logp(rollout, View(scored=Scored.ANSWER)), scorer.logp(rollout, View())
    torch.testing.assert_close(scoped[answer], full[answer], atol=TOLERANCE, rtol=0)
    assert not scoped[~answer].any()


def test_text_only_prompts_are_scored_alike_under_every_picture(make_rollout, make_scorer):
    rollout, scorer = make_rollout(), make_scorer()
    original = scorer.logp(rollout, View())
    for view in VIEWS[1:]:
        torch.testing.assert_close(scorer.logp(rollout, view)[2], original[2], atol=TOLERANCE, rtol=0)


def test_temperature_divides_the_logits(policy, make_rollout, make_scorer):
    rollout = make_rollout()
    found = make_scorer(temperature=0.5).logp(rollout, View())[2, 0]
    y = rollout.responses.ids_BGT[2, 0][rollout.mask_BGT[2, 0]]
    ids = torch.cat([rollout.prompts.ids[2], y])[None]
    with torch.no_grad():
        logits = policy.hf(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0]
    logp = (logits[len(rollout.prompts.ids[2]) - 1 : -1] / 0.5).log_softmax(-1).gather(1, y[:, None])[:, 0]
    torch.testing.assert_close(found[: len(y)], logp, atol=TOLERANCE, rtol=0)


def gradients(policy: VisionLanguageModel, scorer: Scorer, rollout: Rollout, size: int) -> torch.Tensor:
    """Gradient of the sum of log-probs and entropies, over micro-batches of ``size`` prompts."""
    policy.zero_grad()
    for start in range(0, len(rollout.prompts), size):
        logp, entropy = scorer.train_scores(rollout.select(slice(start, start + size)))
        (logp.sum() + entropy.sum()).backward()
    return torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])


def test_gradients_do_not_depend_on_micro_batches(policy, make_rollout, make_scorer):
    rollout = make_rollout(seed=4, group=4)
    for packed in (False, True):
        expected = gradients(policy, make_scorer(packed=packed), rollout, 1)
        for size in (2, 3, 4):
            found = gradients(policy, make_scorer(packed=packed), rollout, size)
            assert (found - expected).norm() <= 1e-6 * expected.norm(), (packed, size)


def test_gradients_do_not_depend_on_packing(policy, make_rollout, make_scorer):
    rollout = make_rollout(seed=4, group=4)
    padded, packed = (gradients(policy, make_scorer(packed=p), rollout, 2) for p in (False, True))
    assert (packed - padded).norm() <= 1e-5 * padded.norm()


def test_blanking_the_picture_changes_log_probs(make_rollout, make_scorer):
    assert check_sight(make_rollout(), make_scorer()) > 1e-3


def test_a_model_that_ignores_pixels_is_refused(policy, make_rollout, make_scorer, monkeypatch):
    blind = VisionLanguageModel.features
    tower = policy.family.vision_tower(policy.hf)
    monkeypatch.setattr(policy, "feature_cache", FeatureCache(tower))  # knows no features, and leaves none
    monkeypatch.setattr(
        VisionLanguageModel,
        "features",
        lambda self, pixels, grids: [f and f.map(torch.zeros_like) for f in blind(self, pixels, grids)],
    )
    with pytest.raises(UserError, match="does not see"):
        check_sight(make_rollout(), make_scorer())


def test_original_is_the_default_view():
    assert View() == View(image=Original()) and hash(View()) == hash(View(image=Original()))


def test_packing_checks_itself_and_falls_back_loudly(make_rollout, make_scorer, monkeypatch, caplog):
    scorer = make_scorer(packed=True)
    assert check_packing(make_rollout(), scorer) <= TOLERANCE and scorer.packed
    lay_out = vlm.lay_out

    def leaking(rows, *options, **named):
        """Every response sees the ones before it."""
        layout = lay_out(rows, *options, **named)
        layout.ends_RL.fill_(layout.ids_RL.shape[1])
        return layout

    monkeypatch.setattr(vlm, "lay_out", leaking)
    with caplog.at_level("WARNING"):
        assert check_packing(make_rollout(), scorer) > 1e-3
    assert not scorer.packed and "falling back to padded rows" in caplog.text


def alike(rollout, vocabulary=36):
    """The rollout with responses of few different tokens: equal ones, and ones that begin alike or end in another."""
    generator = torch.Generator().manual_seed(9)
    ids = torch.randint(33, vocabulary, rollout.shape, generator=generator) * rollout.mask_BGT
    ids[0, 1], ids[1, 2] = ids[0, 0], ids[1, 0]
    mask = rollout.mask_BGT.clone()
    mask[0, 1], mask[1, 2] = mask[0, 0], mask[1, 0]
    mask[1, 2, 3:] = False
    return replace(rollout, responses=replace(rollout.responses, ids_BGT=ids * mask, mask_BGT=mask))


def tree_tokens(rollout, b):
    """Different beginnings of the responses to prompt ``b``."""
    ys = [y[m].tolist() for y, m in zip(rollout.responses.ids_BGT[b], rollout.mask_BGT[b], strict=True)]
    return len({tuple(y[: t + 1]) for y in ys for t in range(len(y))})


@pytest.mark.parametrize("seed", range(3))
def test_beginnings_are_computed_once_with_the_same_scores_and_gradients(policy, make_rollout, make_scorer, seed):
    rollout = alike(make_rollout(seed=seed, group=6))
    found = []
    for packed in (False, True):
        scorer = make_scorer(packed=packed)
        logp = scorer.logp(rollout, View())
        policy.zero_grad()
        scores = scorer.train_scores(rollout)
        weight = torch.linspace(-1, 1, rollout.mask_BGT.numel()).view(rollout.shape)
        ((scores.logp_S + 0.1 * scores.entropy_S) * weight * rollout.mask_BGT).sum().backward()
        found.append((logp, scores, [p.grad.clone() for p in policy.parameters() if p.grad is not None]))
    policy.zero_grad()
    (logp, scores, grads), (logp_p, scores_p, grads_p) = found
    torch.testing.assert_close(logp_p, logp, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(scores_p, scores, atol=TOLERANCE, rtol=0)
    norm = torch.stack([g.norm() for g in grads]).norm()
    assert torch.stack([(a - b).norm() for a, b in zip(grads, grads_p, strict=True)]).norm() <= 1e-5 * norm
    scorer = make_scorer()
    scorer.logp(rollout, View())
    trees = sum(len(rollout.prompts.ids[b]) + tree_tokens(rollout, b) for b in range(4))
    assert scorer.tokens["computed"] == trees < sum(map(len, rollout.prompts.ids)) + int(rollout.mask_BGT.sum())


@pytest.mark.parametrize(
    ("responses", "shared"),
    [([[1, 2], [1, 2, 3], [1, 2, 4], [5]], [0, 2, 2, 0]), ([[1, 2], [1, 2]], [0, 2]), ([[]], [0]), ([[], [1]], [0, 0])],
)
def test_common_prefixes(responses, shared):
    assert common_prefixes(responses) == shared
