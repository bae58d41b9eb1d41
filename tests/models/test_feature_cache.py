"""Features are computed once under the same weights, never reused under others, and bounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from mmcredit.models.load import frozen_copy
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import Prompts


@pytest.fixture
def model(policy: VisionLanguageModel) -> Iterator[VisionLanguageModel]:
    yield frozen_copy(policy)


def calls(model: VisionLanguageModel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of pictures' prompts in each pass of the tower from now on."""
    seen, whole = [], model.features

    def watched(pixels, grids):
        if any(p is not None for p in pixels):
            seen.append(len(pixels))
        return whole(pixels, grids)

    monkeypatch.setattr(model, "features", watched)
    return seen


def close(found, expected):
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a.merged_ND, b.merged_ND, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(a.deepstack, b.deepstack, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_same_pictures_are_seen_once_also_when_encoded_again(model, prompts, monkeypatch):
    expected = model.features(prompts.pixels, prompts.grids)
    seen = calls(model, monkeypatch)
    close(model.features_of(prompts), expected)
    again = Prompts(
        prompts.samples, prompts.ids, tuple(p if p is None else p.clone() for p in prompts.pixels), prompts.grids
    )
    close(model.features_of(again), expected)
    close(model.features_of(prompts.pick([3, 2, 0, 0])), [expected[b] for b in (3, 2, 0, 0)])
    assert seen == [3]


@torch.no_grad()
def test_another_picture_is_not_taken_for_it(model, prompts, monkeypatch):
    model.features_of(prompts)
    pixels = prompts.pixels[0].clone()
    pixels[-1, -1] += 0.01
    other = Prompts(prompts.samples[:1], prompts.ids[:1], (pixels,), prompts.grids[:1])
    seen = calls(model, monkeypatch)
    close(model.features_of(other), model.features((pixels,), prompts.grids[:1]))
    assert seen[0] == 1


@torch.no_grad()
@pytest.mark.parametrize("change", ["step", "load"])
def test_changed_weights_drop_everything(model, prompts, change):
    before = model.features_of(prompts)
    weight = next(model.family.vision_tower(model.hf).parameters())
    if change == "step":
        weight.add_(0.1)
    else:
        state = {name: 1.1 * value for name, value in model.state_dict().items()}
        model.load_state_dict(state)
    after = model.features_of(prompts)
    close(after, model.features(prompts.pixels, prompts.grids))
    assert (after[0].merged_ND - before[0].merged_ND).abs().max() > 1e-4


def test_a_tower_that_trains_gets_its_gradients(model, prompts, monkeypatch):
    with torch.no_grad():
        model.features_of(prompts)
    seen = calls(model, monkeypatch)
    assert not model.features_of(prompts)[0].merged_ND.requires_grad and seen == []  # frozen: what is kept will do
    model.requires_grad_(True)
    assert model.features_of(prompts)[0].merged_ND.requires_grad and seen == [4]


@torch.no_grad()
def test_memory_is_bounded_and_the_oldest_leave_first(model, prompts, monkeypatch):
    one = model.features(prompts.pixels[:1], prompts.grids[:1])[0].bytes
    model.feature_cache.max_bytes = 2 * one + 1
    seen = calls(model, monkeypatch)
    first, last = prompts.pick([0]), prompts.pick([3])
    for shown in (first, last, prompts.pick([1]), first, last):
        model.features_of(shown)
        assert model.feature_cache.bytes <= model.feature_cache.max_bytes
    assert len(seen) >= 3
    assert model.feature_cache.bytes == sum(f.bytes for f in model.feature_cache._kept.values())


def test_inference_mode_leaves_nothing_behind(model, prompts):
    with torch.inference_mode():
        model.features_of(prompts)
    assert model.feature_cache.bytes == 0


@pytest.mark.parametrize("max_bytes", [0, 12345])
def test_references_and_teachers_keep_as_much_as_the_policy(model, max_bytes):
    model.feature_cache.max_bytes = max_bytes
    assert frozen_copy(model).feature_cache.max_bytes == max_bytes
