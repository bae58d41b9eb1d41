"""Every family scores and samples what Hugging Face's own class says of each response alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from tiny_families import CASES, Qwen25, build

from mmcredit.data.encode import Encoder
from mmcredit.data.templates import Template
from mmcredit.data.world.source import World
from mmcredit.models import flex
from mmcredit.models.families import family_of, qwen2_5_vl
from mmcredit.models.image_only import ImageOnly
from mmcredit.models.layout import Row
from mmcredit.models.load import checkpoint_activations, export, frozen_copy, load_policy
from mmcredit.models.processor import load_processor
from mmcredit.models.trainable import language, last_layers
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.scoring.divergence import reverse_kl
from mmcredit.scoring.edits import Blank, CoarseInk, FeatureNull, Foreground, PixelMask
from mmcredit.scoring.replace import FeatureReplace
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.startup import check_sight
from mmcredit.scoring.views import Hints, View, Weights
from mmcredit.types import Prompts, Rollout, Sample, UserError

TOLERANCE = 1e-5  # nats, float32
WORLD = World("val", 64, seed=5)
TEMPLATE = Template("Think, then \\boxed{answer}.", r".*\\boxed\{[^{}]+\}")


@dataclass(frozen=True)
class Subject:
    """A family's tiny model with prompts: one picture, two pictures of other sizes, text only, one picture."""

    case: Any
    processor: ImageOnly
    policy: VisionLanguageModel
    prompts: Prompts

    @property
    def shares(self) -> bool:
        return self.policy.family.SHARES_PREFIX

    def scorer(self, **options: Any) -> Scorer:
        return Scorer({Weights.OLD: self.policy}, Encoder(self.processor, TEMPLATE), **options)

    def scorers(self, **options: Any) -> list[Scorer]:
        """Padded, and packed where rows can be shared."""
        return [self.scorer(packed=packed, **options) for packed in ([False, True] if self.shares else [False])]

    def untiled(self) -> Subject:
        """The same with one tile a picture."""
        processor = self.case.processor(self.processor.tokenizer, max_patches=1)
        return replace(self, processor=processor, prompts=Encoder(processor, TEMPLATE)(self.prompts.samples))

    def plain(self, b: int, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        """Arguments of the Hugging Face model for [1, L] ids that start with prompt ``b``."""
        images = list(self.prompts.samples[b].images)
        pictures = self.case.pictures(self.processor, images, ids) if images else {}
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **pictures}

    def alone(self, rollout: Rollout, b: int, g: int) -> torch.Tensor:
        """[T_i] log-probs of one response through Hugging Face's own forward: no wrapper, no padding, no sharing."""
        y = rollout.responses.ids_BGT[b, g][rollout.mask_BGT[b, g]]
        ids = torch.cat([self.prompts.ids[b], y])[None]
        self.policy.hf.model.rope_deltas = None
        logits = self.policy.hf(**self.plain(b, ids)).logits[0, len(self.prompts.ids[b]) - 1 : -1]
        return logits.log_softmax(-1).gather(1, y[:, None])[:, 0]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.name)
def subject(request: pytest.FixtureRequest, processor: Any) -> Subject:
    case = request.param
    own = case.processor(processor.tokenizer)
    wide = WORLD[1].images[0].resize((192, 96))
    box = WORLD[1].proposal_bbox
    samples = [
        WORLD[0],
        Sample("two", (wide, WORLD[2].images[0]), "which is bigger?", "a", "attribute", proposal_bbox=box),
        Sample("text", (), "what is one and one?", "2", ""),
        WORLD[2],
    ]
    return Subject(case, own, build(case, processor.tokenizer), Encoder(own, TEMPLATE)(samples))


@pytest.fixture(scope="module")
def rollout(subject: Subject, make_rollout: Callable[..., Rollout]) -> Rollout:
    return make_rollout(seed=2, group=3, shown=subject.prompts)


def rows_of(subject: Subject, rollout: Rollout) -> list[Row]:
    """One response a row."""
    policy, prompts = subject.policy, rollout.prompts
    features, positions = policy.features(prompts.pixels, prompts.grids), policy.positions(prompts)
    return [
        Row(prompts.ids[b], positions[b], features[b], (y[mask],))
        for b in range(len(prompts))
        for y, mask in zip(rollout.responses.ids_BGT[b], rollout.mask_BGT[b], strict=True)
    ]


def test_logp_equals_each_response_alone_through_the_plain_model(subject, rollout):
    with torch.no_grad():
        expected = torch.cat([subject.alone(rollout, b, g) for b in range(4) for g in range(3)])
    assert expected.std() > 0.3, "the random model must distinguish tokens"
    for scorer in subject.scorers():
        logp = scorer.logp(rollout, View())
        torch.testing.assert_close(logp[rollout.mask_BGT], expected, atol=TOLERANCE, rtol=0)
        assert not logp[~rollout.mask_BGT].any()


def test_a_hinted_prompt_is_that_of_the_hinted_question(subject):
    encoder = Encoder(subject.processor, TEMPLATE)
    for sample, ids in zip(subject.prompts.samples, subject.prompts.ids, strict=True):
        expected = encoder([replace(sample, question=f"{sample.question}\ncandidate: 3")]).ids[0]
        assert encoder.hinted(sample, ids, "candidate: 3").tolist() == expected.tolist()


EDITS = [Blank(), FeatureNull(), PixelMask(0.5, (0,)), FeatureReplace(), CoarseInk(250), Foreground()]


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: type(e).__name__)
def test_packed_equals_padded_under_edited_pictures(subject, rollout, edit):
    """The views that name places need pictures that are not cut into tiles."""
    if any(grid is not None and grid[:, 0].max() > 1 for grid in subject.prompts.grids):
        subject = subject.untiled()
    rollout = replace(rollout, prompts=subject.prompts)
    padded, *packed = (scorer.logp(rollout, View(image=edit)) for scorer in subject.scorers())
    original = subject.scorer().logp(rollout, View())
    assert (padded - original)[[0, 1, 3]].abs().amax((1, 2)).min() > 1e-3, "every prompt with a picture changes"
    torch.testing.assert_close(padded[2], original[2], atol=TOLERANCE, rtol=0)
    for logp in packed:
        torch.testing.assert_close(logp, padded, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("left_pad", [False, True])
def test_padding_side_changes_nothing(subject, rollout, left_pad):
    rows = rows_of(subject, rollout)
    with torch.no_grad():
        together = subject.policy.scores(rows, left_pad=left_pad)
        apart = [subject.policy.scores([row]) for row in rows]
    for i, name in enumerate(("logp", "entropy")):
        expected = torch.cat([score[i] for score in apart])
        torch.testing.assert_close(together[i], expected, atol=TOLERANCE, rtol=0, msg=name)


def gradients(policy: VisionLanguageModel, losses: list[Callable[[], torch.Tensor]]) -> torch.Tensor:
    policy.zero_grad()
    for loss in losses:
        loss().backward()
    return torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None])


def test_gradients_equal_those_of_each_response_alone(subject, rollout):
    policy = subject.policy
    responses = [(b, g) for b in range(4) for g in range(3)]
    expected = gradients(policy, [lambda b=b, g=g: subject.alone(rollout, b, g).sum() for b, g in responses])
    for scorer in subject.scorers():
        found = gradients(policy, [lambda s=scorer: s.train_scores(rollout).logp_S.sum()])
        assert (found - expected).norm() <= 1e-5 * expected.norm()


def test_block_masks_say_what_dense_masks_say(subject, rollout, block_masks):
    """Log-probs and gradients, shared rows where they can be; attention of the vision tower stays as it was."""
    policy, found = subject.policy, []
    for name in (flex.NAME, "sdpa"):
        flex.choose(policy.hf, name)
        calls = block_masks.count
        logps = [scorer.logp(rollout, View()) for scorer in subject.scorers()]
        scorer = subject.scorers()[-1]
        slope = gradients(policy, [lambda s=scorer: s.train_scores(rollout).logp_S.sum()])
        found.append((*logps, slope))
        assert (block_masks.count > calls) == (name == flex.NAME)
    *logps, slope = zip(*found, strict=True)
    for ours, theirs in logps:
        torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0)
    assert (slope[0] - slope[1]).norm() <= 1e-5 * slope[1].norm()


def test_block_masks_leave_the_plain_model_alone(subject, block_masks):
    """Hugging Face's own masks, which hide padding, where ours are not used."""
    policy, ids, found = subject.policy, subject.prompts.ids[2], []
    padding = torch.full((7,), policy.pad_id)
    mask = torch.cat([torch.zeros_like(padding), torch.ones_like(ids)])
    for name in (flex.NAME, "sdpa"):
        flex.choose(policy.hf, name)
        policy.hf.model.rope_deltas = None
        with torch.no_grad():
            logits = policy.hf(input_ids=torch.cat([padding, ids])[None], attention_mask=mask[None]).logits
        found.append(logits[0, 7:])
    torch.testing.assert_close(found[0], found[1], atol=0, rtol=0)
    assert not block_masks.count


def test_divergences_equal_full_logits(subject, rollout):
    """Of a hinted prompt and the plain one, and the gradient of the plain one."""
    policy, hint = subject.policy, "candidate: 3"
    encoder, mask = Encoder(subject.processor, TEMPLATE), rollout.mask_BGT
    view = View(hints=Hints(((hint,) * 3,) * 4))

    def alone(b: int, g: int) -> torch.Tensor:
        y, found = rollout.responses.ids_BGT[b, g][mask[b, g]], []
        prompt = subject.prompts.ids[b]
        for shown, grads in ((prompt, True), (encoder.hinted(subject.prompts.samples[b], prompt, hint), False)):
            policy.hf.model.rope_deltas = None
            with torch.set_grad_enabled(grads and torch.is_grad_enabled()):
                logits = policy.hf(**subject.plain(b, torch.cat([shown, y])[None])).logits[0]
            found.append(logits[len(shown) - 1 : -1].log_softmax(-1))
        return reverse_kl(*found)

    responses = [(b, g) for b in range(4) for g in range(3)]
    with torch.no_grad():
        expected = torch.cat([alone(b, g) for b, g in responses])
    slope = gradients(policy, [lambda b=b, g=g: alone(b, g).sum() for b, g in responses])
    for scorer in subject.scorers():
        found = scorer.kl(rollout, View(), view)
        torch.testing.assert_close(found[mask], expected, atol=2e-5, rtol=1e-4)
        found = gradients(policy, [lambda s=scorer: s.train_divergence(rollout, view, reverse_kl).sum()])
        assert (found - slope).norm() <= 1e-4 * slope.norm()


def test_a_changed_token_changes_no_other_response(subject, rollout):
    ids = rollout.responses.ids_BGT.clone()
    ids[0, 1, 0] = 40 if ids[0, 1, 0] != 40 else 41
    changed = replace(rollout, responses=replace(rollout.responses, ids_BGT=ids))
    same = torch.ones(ids.shape[:2], dtype=torch.bool)
    same[0, 1] = False
    for scorer in subject.scorers():
        before, after = (scorer.logp(r, View()) for r in (rollout, changed))
        torch.testing.assert_close(after[same], before[same], atol=1e-6, rtol=0)
        assert (after[0, 1] - before[0, 1]).abs().max() > 1e-3


def test_greedy_sampling_equals_generate(subject):
    """With prompts of other lengths beside it."""
    policy, prompts = subject.policy, subject.prompts
    assert len({len(ids) for ids in prompts.ids}) > 2, "the prompts must need padding"
    ours = HFEngine(SamplingLaw(1, 0.0, 1.0, 12), seed=0).generate(policy, prompts, 0).ids
    for b, ids in enumerate(prompts.ids):
        out = policy.hf.generate(
            **subject.plain(b, ids[None]), do_sample=False, max_new_tokens=12,
            suppress_tokens=policy.forbidden_ids.tolist(),
        )  # fmt: skip
        assert ours[b][0].tolist() == out[0, len(ids) :].tolist()


def test_a_sampled_response_does_not_depend_on_its_neighbours(subject):
    """Also while rows end one after another."""
    prompts, law = subject.prompts, SamplingLaw(3, 1.0, 1.0, 8)
    whole = HFEngine(law, seed=7).generate(subject.policy, prompts, 2).ids
    for b in range(4):
        one = Prompts(*((field[b],) for field in (prompts.samples, prompts.ids, prompts.pixels, prompts.grids)))
        alone = HFEngine(law, seed=7).generate(subject.policy, one, 2).ids[0]
        assert [y.tolist() for y in alone] == [y.tolist() for y in whole[b]]


def test_sampled_log_probs_are_the_scored_ones(subject):
    """Decoding with a cache, beginnings shared, finds what scoring finds, at another temperature than 1 too."""
    policy, prompts, temperature = subject.policy, subject.prompts, 0.7
    sampled = HFEngine(SamplingLaw(3, temperature, 0.9, 6), seed=1).generate(policy, prompts, 0)
    assert sampled.exact
    fields = (prompts.ids, policy.positions(prompts), policy.features(prompts.pixels, prompts.grids))
    for group, logps, ids, position, feature in zip(*sampled[:2], *fields, strict=True):
        rows = [Row(ids, position, feature, (y,)) for y in group]
        with torch.no_grad():
            scored = policy.scores(rows, temperature).logp_S
        torch.testing.assert_close(torch.cat(logps), scored, atol=TOLERANCE, rtol=0)


def test_vision_tokens_are_never_sampled_even_if_the_model_wants_them(subject, monkeypatch):
    wanted = subject.policy.forbidden_ids
    assert subject.policy.hf.config.image_token_id in wanted

    def eager(hidden: torch.Tensor) -> torch.Tensor:
        logits = subject.policy.hf.get_output_embeddings()(hidden).float()
        logits[:, wanted] += 100
        return logits

    monkeypatch.setattr(subject.policy, "logits", eager)
    sampled = HFEngine(SamplingLaw(4, 1.0, 1.0, 8), seed=0).generate(subject.policy, subject.prompts, 0).ids
    assert not torch.isin(torch.cat([y for group in sampled for y in group]), wanted).any()


def test_blanking_the_picture_changes_log_probs(subject, rollout):
    assert check_sight(rollout, subject.scorer()) > 1e-3


def test_rows_are_shared_only_where_they_can_be(subject, rollout, caplog):
    with caplog.at_level("WARNING"):
        scorer = subject.scorer(packed=True)
        scorer.logp(rollout, View())
        scorer.train_scores(rollout)
    assert scorer.packed is subject.shares
    assert caplog.text.count("no shared rows") == (0 if subject.shares else 1)
    if not subject.shares:
        row = rows_of(subject, rollout)[0]
        with pytest.raises(ValueError, match="cannot share a row"):
            subject.policy.scores([replace(row, responses=row.responses * 2)])


def test_sharing_is_refused_for_a_reason(subject, rollout, monkeypatch):
    """A family that declares otherwise would be silently wrong."""
    if subject.shares:
        pytest.skip("shares rows, shown above")
    padded = subject.scorer().logp(rollout, View())
    monkeypatch.setattr(subject.policy.family, "SHARES_PREFIX", True)
    assert (subject.scorer(packed=True).logp(rollout, View()) - padded).abs().max() > 1e-2


def test_what_is_exported_is_loaded_again(subject, rollout, tmp_path):
    """Model and processor, by the family's own choice of class."""
    export(subject.policy, subject.processor, tmp_path / "policy")
    processor, policy = (
        load_processor(tmp_path / "policy"),
        load_policy(str(tmp_path / "policy"), train=partial(last_layers, count=1)),
    )
    assert type(processor) is type(subject.processor) and processor.merge == subject.processor.merge
    prompts = Encoder(processor, TEMPLATE)(subject.prompts.samples)
    for b in range(4):
        assert prompts.ids[b].tolist() == subject.prompts.ids[b].tolist()
        if b != 2:
            assert torch.equal(prompts.pixels[b], subject.prompts.pixels[b])
            assert torch.equal(prompts.grids[b], subject.prompts.grids[b])
    again = Scorer({Weights.OLD: policy.eval()}, Encoder(processor, TEMPLATE))
    torch.testing.assert_close(again.logp(rollout, View()), subject.scorer().logp(rollout, View()))
    trained = {name for name, p in policy.named_parameters() if p.requires_grad}
    last = len(policy.family.decoder_layers(policy.hf)) - 1
    assert trained and all(f"layers.{last}." in name for name in trained)


def test_freezing_the_vision_tower_leaves_the_rest(subject, tmp_path):
    export(subject.policy, subject.processor, tmp_path / "policy")
    policy = load_policy(str(tmp_path / "policy"), train=language)
    features = policy.features(subject.prompts.pixels, subject.prompts.grids)
    assert not features[0].merged_ND.requires_grad
    assert all(p.requires_grad for p in policy.family.decoder_layers(policy.hf).parameters())


def test_merged_tokens_of_qwen2_5_vl_stand_row_by_row(processor):
    """Its tower works window by window. With windows of one token, block k of the pixels is seen by token k alone."""
    model = Qwen25().model(processor.tokenizer, vision={"window_size": 28, "fullatt_block_indexes": []})
    pixels, grid = torch.randn(60, 3 * 2 * 14 * 14), torch.tensor([[1, 6, 10]])
    blocks = torch.arange(60) // 4
    for k in range(15):
        changed = torch.where((blocks == k)[:, None], pixels + 1, pixels)
        with torch.no_grad():
            a, b = (qwen2_5_vl.image_features(model, p, grid, [1])[0].merged_ND for p in (pixels, changed))
        assert (a - b).abs().amax(1).nonzero().flatten().tolist() == [k]


def test_a_sliding_window_is_refused(processor):
    """The mask that the wrapper gives takes the place of the model's own: the window would be lost in silence."""
    sliding = Qwen25().model(
        processor.tokenizer, text={"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    )
    with pytest.raises(UserError, match="qwen2_5_vl models with layers of type 'sliding_attention'"):
        VisionLanguageModel(sliding)


def test_an_unknown_family_is_refused():
    with pytest.raises(UserError, match=r"known types: .*qwen2_5_vl"):
        family_of("gpt2")


def test_gradient_checkpointing_computes_layers_again_with_the_same_gradients(subject, rollout):
    runs, found = [], []
    policy = frozen_copy(subject.policy).requires_grad_(True).train()
    policy.family.decoder_layers(policy.hf)[0].mlp.register_forward_pre_hook(lambda *_: runs.append(1))
    scorer = Scorer({Weights.OLD: policy}, Encoder(subject.processor, TEMPLATE))
    for _ in range(2):
        runs.clear()
        policy.zero_grad()
        scores = scorer.train_scores(rollout)
        (scores.logp_S * torch.linspace(-1, 1, scores.logp_S.shape[-1])).sum().backward()
        grads = [p.grad.clone() for p in policy.parameters() if p.grad is not None]
        found.append((len(runs), scores.logp_S, grads))
        checkpoint_activations(policy.hf)
    (plain, logp, grads), (recomputed, logp_c, grads_c) = found
    assert recomputed == 2 * plain
    torch.testing.assert_close(logp_c, logp, atol=1e-6, rtol=0)
    for a, b in zip(grads, grads_c, strict=True):
        torch.testing.assert_close(b, a, atol=1e-5, rtol=1e-5)
