"""Views: under which weights, prompt and image a rollout is scored. All are hashable values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from mmcredit.functional import stable_seed
from mmcredit.models.features import ImageFeatures
from mmcredit.scoring.regions import evidence_box, grid_of, reference_tokens, refuse_tiles, region_tokens, ring_tokens
from mmcredit.types import Sample


class Weights(Enum):
    """Whose log-probs."""

    OLD = "old"  # the policy that sampled
    REFERENCE = "reference"  # frozen initial policy


class Scored(Enum):
    """Which tokens."""

    RESPONSE = "response"
    ANSWER = "answer"  # tokens of the final answer, conditioned on the generated prefix


@dataclass(frozen=True, slots=True)
class Picture:
    """What an edit may know of a prompt's pictures."""

    sample: Sample
    grid_thw: Tensor  # [images, 3] tiles, rows and columns of patches of a tile
    merge: int
    black: Tensor  # [patch_dim] a black patch as the processor normalises it


class ImageEdit(Protocol):
    """A change of the image: of its pixels, or of its features after the vision tower."""

    touches_pixels: ClassVar[bool]

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        """[patches, patch_dim] changed pixels."""

    def features(self, features: ImageFeatures, picture: Picture) -> ImageFeatures:
        """Changed features."""


@dataclass(frozen=True, slots=True)
class Original:
    """The image as it is."""

    touches_pixels: ClassVar[bool] = False

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        return pixels

    def features(self, features: ImageFeatures, picture: Picture) -> ImageFeatures:
        return features


@dataclass(frozen=True, slots=True)
class PixelMask(Original):
    """Each patch-sized cell of the resized picture blackened with probability p. METHODS section 0.

    ``seed`` is mixed with the sample id: give (run seed, step) in training, a constant in diagnostics.
    """

    p: float = 0.5
    seed: tuple[int, ...] = ()
    touches_pixels: ClassVar[bool] = True

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        generator = torch.Generator().manual_seed(stable_seed(picture.sample.id, *self.seed, "pixel mask"))
        masks = []
        for tiles, rows, columns in picture.grid_thw.tolist():
            refuse_tiles(tiles)
            cells = torch.rand(rows, columns, generator=generator) < self.p
            m = picture.merge  # the processor lists patches block by merge block
            blocks = cells.view(rows // m, m, columns // m, m).permute(0, 2, 1, 3).reshape(-1)
            masks.append(blocks)
        return torch.where(torch.cat(masks)[:, None], picture.black, pixels)


@dataclass(frozen=True, slots=True)
class Blank(Original):
    """A black picture."""

    touches_pixels: ClassVar[bool] = True

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        return picture.black.expand_as(pixels)


@dataclass(frozen=True, slots=True)
class FeatureNull(Original):
    """All image embeddings and DeepStack features := 0; prompt and positions unchanged."""

    def features(self, features: ImageFeatures, picture: Picture) -> ImageFeatures:
        return features.map(torch.zeros_like)


class Region(Protocol):
    """A set of merged image tokens of each sample."""

    def tokens(self, picture: Picture) -> Tensor:
        """Indices into the merged tokens of the first picture."""


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


@dataclass(frozen=True, slots=True)
class View:
    """How to score: ``View()`` is the rollout's own conditions."""

    weights: Weights = Weights.OLD
    image: ImageEdit = field(default_factory=Original)
    scored: Scored = Scored.RESPONSE
