"""Features of a region replaced: which region, and by what. Hashable values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from mmcredit.functional import stable_seed
from mmcredit.models.features import ImageFeatures
from mmcredit.scoring.edits import Original, Picture
from mmcredit.scoring.regions import evidence_box, grid_of, reference_tokens, region_tokens, ring_tokens


class Region(Protocol):
    """A set of merged image tokens of each sample."""

    def tokens(self, picture: Picture) -> Tensor:
        """[N] int64, indices into the merged tokens of the first picture."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sample's evidence box."""

    def tokens(self, picture: Picture) -> Tensor:
        grid = grid_of(picture.sample, picture.grid_thw, picture.merge)
        return region_tokens(evidence_box(picture.sample)[0], grid)


@dataclass(frozen=True, slots=True)
class Reference:
    """Random region number ``index`` of the evidence box's size, away from it."""

    index: int

    def tokens(self, picture: Picture) -> Tensor:
        grid = grid_of(picture.sample, picture.grid_thw, picture.merge)
        return reference_tokens(picture.sample, grid, self.index)


class Filling(Protocol):
    """What takes the place of a region's tokens."""

    def __call__(self, layer_ND: Tensor, ring: Tensor, count: int, seed: int) -> Tensor:
        """[count, D] or [1, D] new tokens, from one layer's features and the indices around the region."""


@dataclass(frozen=True, slots=True)
class RingMean:
    """Mean of the tokens around the region."""

    def __call__(self, layer_ND: Tensor, ring: Tensor, count: int, seed: int) -> Tensor:
        return layer_ND[ring].mean(0, keepdim=True) if len(ring) else layer_ND.mean(0, keepdim=True)


@dataclass(frozen=True, slots=True)
class Zero:
    """Zeros."""

    def __call__(self, layer_ND: Tensor, ring: Tensor, count: int, seed: int) -> Tensor:
        return torch.zeros_like(layer_ND[:1])


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Noise with the mean and standard deviation, feature by feature, of all tokens of the image."""

    def __call__(self, layer_ND: Tensor, ring: Tensor, count: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(count, layer_ND.shape[1], generator=generator).to(layer_ND)
        return layer_ND.mean(0) + noise * layer_ND.std(0, correction=0)


@dataclass(frozen=True, slots=True)
class FeatureReplace(Original):
    """The region's merged tokens replaced, at the input and in the DeepStack layers. METHODS section 4, step 3."""

    region: Region = field(default_factory=Evidence)
    filling: Filling = field(default_factory=RingMean)
    ring: int = 2

    def features(self, features: ImageFeatures, picture: Picture) -> ImageFeatures:
        grid = grid_of(picture.sample, picture.grid_thw, picture.merge)
        region = self.region.tokens(picture)
        ring = ring_tokens(region, grid, self.ring)
        seed = stable_seed(picture.sample.id, self.region, "filling")

        def edit(layer_ND: Tensor) -> Tensor:
            changed = layer_ND.clone()
            changed[region] = self.filling(layer_ND[: grid.tokens], ring, len(region), seed)
            return changed

        return features.map(edit)
