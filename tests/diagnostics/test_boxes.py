"""Other boxes and pictures for a sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from mmcredit.data.world.source import World
from mmcredit.diagnostics.boxes import (
    Overlapping,
    Scaled,
    Scattered,
    Shifted,
    Shuffled,
    blindfold,
    clipped,
    elsewhere,
    inside,
    partner,
)
from mmcredit.scoring.edits import Picture
from mmcredit.scoring.regions import evidence_box
from mmcredit.types import Box

WORLD = World("val", 24, seed=3, families=("counting", "attribute"))
SAMPLES = [WORLD[i] for i in range(24)]


@pytest.mark.parametrize(("low", "high"), [(0.7, 1.0), (0.3, 0.5), (0.0, 0.1)])
def test_overlap_lies_in_its_bin_along_one_way_out(low, high):
    moved = [(s, other) for s in SAMPLES if (other := Overlapping(low, high)(s))]
    assert len(moved) > 15
    for sample, other in moved:
        box, new = evidence_box(sample)[0], evidence_box(other)[0]
        assert low - 1e-6 <= new.iou(box) <= high + 1e-6 and inside(new, sample) and (new.w, new.h) == (box.w, box.h)
        far = evidence_box(Overlapping(0.0, 0.1)(sample))[0]
        steps = [np.array([b.x - box.x, b.y - box.y]) for b in (new, far)]
        angles = [np.arctan2(*step) for step in steps]
        assert angles[0] == pytest.approx(angles[1], abs=1e-3) and np.hypot(*steps[0]) <= np.hypot(*steps[1]) + 1e-6


def test_random_scaled_shifted_and_clipped_boxes():
    for sample in SAMPLES:
        box = evidence_box(sample)[0]
        assert evidence_box(elsewhere(sample))[0].iou(box) <= 0.05
        half = evidence_box(Scaled(0.5)(sample))[0]
        assert (half.w, half.h, *half.centre) == pytest.approx((box.w / 2, box.h / 2, *box.centre))
        assert inside(evidence_box(Scaled(9.0)(sample))[0], sample)
        if other := Shifted(0.1)(sample):
            new = evidence_box(other)[0]
            assert np.hypot(new.x - box.x, new.y - box.y) == pytest.approx(12.8) and inside(new, sample)
    assert clipped(Box(-5, 100, 20, 40), SAMPLES[0]) == Box(0, 100, 15, 28)
    covered = replace(SAMPLES[0], proposal_bbox=Box(0, 0, 128, 128))
    assert elsewhere(covered) is None and Shifted(0.2)(covered) is None and Overlapping(0.1, 0.3)(covered) is None


def test_shuffled_boxes_are_those_of_others_and_fit_the_picture():
    assert all(partner(i, 9) != i for i in range(9)) and sorted(partner(i, 9) for i in range(9)) == list(range(9))
    wide = replace(SAMPLES[1], images=(SAMPLES[1].images[0].resize((256, 64)),), proposal_bbox=Box(128, 0, 64, 32))
    found = evidence_box(Shuffled([SAMPLES[0], wide])(SAMPLES[0]))[0]
    assert found == Box(64, 0, 32, 64)  # 256 x 64 scaled to 128 x 128
    assert Shuffled(SAMPLES[:1])(SAMPLES[0]) is None


def test_the_blindfold_is_empty_and_of_the_same_size():
    hidden = blindfold(SAMPLES[0])
    assert hidden.images[0].size == SAMPLES[0].images[0].size
    assert hidden.images[0].getextrema() == ((255, 255),) * 3


def test_a_global_mask_has_as_many_tokens_anywhere():
    sample = replace(SAMPLES[0], proposal_bbox=Box(0, 0, 64, 64))  # 2 x 2 of 4 x 4 merged tokens
    picture = Picture(sample, torch.tensor([[1, 8, 8]]), 2, torch.zeros(1), lambda images: torch.zeros(0))
    drawn = [Scattered(i).tokens(picture).tolist() for i in range(30)]
    assert all(len(set(tokens)) == 4 for tokens in drawn) and drawn[0] == Scattered(0).tokens(picture).tolist()
    assert {token for tokens in drawn for token in tokens} == set(range(16))
