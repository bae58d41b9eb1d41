"""Pixel noise: how much of a picture is left, and what a draw depends on."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from PIL import Image

from mmcredit.scoring.edits import PixelNoise, remaining
from mmcredit.types import UserError


@pytest.mark.parametrize("steps", [0, 1, 10, 250, 500, 999, 1000])
def test_remaining_equals_the_literal_product(steps):
    """METHODS section 8; the public code's betas, one by one."""
    product = 1.0
    for i in range(steps):
        z = -6 + 12 * i / 999
        product *= 1 - (1 / (1 + math.exp(-z)) * (0.5e-2 - 1e-5) + 1e-5)
    assert remaining(steps / 1000) == pytest.approx(product, abs=1e-6)


def test_moments():
    """Of a grey picture: mean kept, standard deviation sqrt(1 - a), where little is clipped."""
    grey = Image.new("RGB", (200, 100), (128, 128, 128))
    noisy = PixelNoise(0.2)._noisy(grey, torch.Generator().manual_seed(0))
    values = torch.frombuffer(bytearray(noisy.tobytes()), dtype=torch.uint8) / 255
    assert noisy.size == (200, 100) and noisy.mode == "RGB"
    assert float(values.mean()) == pytest.approx(math.sqrt(remaining(0.2)) * 128 / 255, abs=2e-3)
    assert float(values.std()) == pytest.approx(math.sqrt(1 - remaining(0.2)), rel=0.02)


def test_no_strength_leaves_the_pixels(prompts, make_scorer):
    found = make_scorer().sight.edited(prompts, PixelNoise(0.0, (1, 2)))
    for same, pixels in zip(found.pixels, prompts.pixels, strict=True):
        assert (same is None and pixels is None) or torch.equal(same, pixels)


def test_a_draw_is_named_by_seed_and_sample(prompts, make_scorer):
    sight, edit = make_scorer().sight, PixelNoise(0.5, (0, 3))
    first, again, other = (sight.edited(prompts, e).pixels[0] for e in (edit, edit, edit.seeded(0, 4)))
    assert torch.equal(first, again) and (first - other).abs().max() > 0.1
    renamed = replace(prompts, samples=(replace(prompts.samples[0], id="else"), *prompts.samples[1:]))
    assert (sight.edited(renamed, edit).pixels[0] - first).abs().max() > 0.1
    assert torch.equal(sight.edited(prompts.pick([3, 0]), edit).pixels[1], first)


def test_a_strength_outside_its_range_is_refused():
    with pytest.raises(UserError, match=r"strength of pixel noise must be in 0..1, not -0.1"):
        PixelNoise(-0.1)
