"""Edits of a picture: of its pixels before the vision tower, or of its features after it. Hashable values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import torch
from PIL.Image import Image, composite
from PIL.Image import frombytes as from_bytes
from PIL.Image import new as new_image
from PIL.ImageFilter import MaxFilter
from torch import Tensor

from mmcredit.functional import stable_seed
from mmcredit.models.features import ImageFeatures
from mmcredit.scoring.regions import refuse_tiles
from mmcredit.types import Sample, UserError


@dataclass(frozen=True, slots=True)
class Picture:
    """What an edit may know of a prompt's pictures."""

    sample: Sample
    grid_thw: Tensor  # [images, 3] tiles, rows and columns of patches of a tile
    merge: int
    black: Tensor  # [patch_dim] a black patch as the processor normalises it
    encode: Callable[[Sequence[Image]], Tensor]  # pictures -> [patches, patch_dim], through the processor


class ImageEdit(Protocol):
    """A change of the image: of its pixels, or of its features after the vision tower."""

    touches_pixels: ClassVar[bool]

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        """[patches, patch_dim] changed pixels."""

    def features(self, features: ImageFeatures, picture: Picture) -> ImageFeatures:
        """Changed features."""

    def seeded(self, *seed: int) -> ImageEdit:
        """The edit with this seed, mixed with the sample id, if it draws; else the edit itself."""


@dataclass(frozen=True, slots=True)
class Original:
    """The image as it is."""

    touches_pixels: ClassVar[bool] = False

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        return pixels

    def features(self, features: ImageFeatures, picture: Picture) -> ImageFeatures:
        return features

    def seeded(self, *seed: int) -> ImageEdit:
        return self


@dataclass(frozen=True, slots=True)
class PixelMask(Original):
    """Each patch-sized cell of the resized picture blackened with probability p. METHODS section 0.

    ``seed`` is mixed with the sample id: give (run seed, step) in training, a constant in diagnostics.

    Raises:
        UserError: p outside 0..1.
    """

    p: float = 0.5
    seed: tuple[int, ...] = ()
    touches_pixels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise UserError(f"a pixel mask blackens each cell with probability p in 0..1, not p={self.p}")

    def seeded(self, *seed: int) -> ImageEdit:
        return replace(self, seed=seed)

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
class PixelNoise(Original):
    """Gaussian noise on the picture as diffusion models add it: sqrt(a) x + sqrt(1 - a) e, x in 0..1, clipped; a by
    ``remaining``. METHODS section 8.

    ``strength`` is the share of the 1000 noising steps made, the rest and ``seed`` are as in ``PixelMask``.

    Raises:
        UserError: strength outside 0..1.
    """

    strength: float = 0.5
    seed: tuple[int, ...] = ()
    touches_pixels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.strength <= 1:
            raise UserError(f"the strength of pixel noise must be in 0..1, not {self.strength}")

    def seeded(self, *seed: int) -> ImageEdit:
        return replace(self, seed=seed)

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        generator = torch.Generator().manual_seed(stable_seed(picture.sample.id, *self.seed, "pixel noise"))
        return picture.encode([self._noisy(image, generator) for image in picture.sample.images])

    def _noisy(self, image: Image, generator: torch.Generator) -> Image:
        kept = remaining(self.strength)
        x = torch.frombuffer(bytearray(image.convert("RGB").tobytes()), dtype=torch.uint8) / 255
        noisy = kept**0.5 * x + (1 - kept) ** 0.5 * torch.randn(x.shape, generator=generator)
        return from_bytes("RGB", image.size, bytes((noisy.clamp(0, 1) * 255).round().byte().numpy()))


def remaining(strength: float) -> float:
    """a: share of the picture's variance left after ``strength`` x 1000 noising steps of beta_i = 1e-5 +
    4.99e-3 sigmoid(z_i), z_i from -6 to 6 evenly; 1 at strength 0, .75 at .5, .08 at 1."""
    betas = 1e-5 + 4.99e-3 * torch.linspace(-6, 6, 1000, dtype=torch.float64).sigmoid()
    return float((1 - betas[: round(1000 * strength)]).prod())


@dataclass(frozen=True, slots=True)
class Blank(Original):
    """A black picture."""

    touches_pixels: ClassVar[bool] = True

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        return picture.black.expand_as(pixels)


@dataclass(frozen=True, slots=True)
class CoarseInk(Original):
    """Everything dark, grown by ``grow`` pixels, painted black: coarse places stay, details go. METHODS section 0."""

    threshold: int = 245  # grey, 0..255; below is ink
    grow: int = 4  # pixels to each side: a 9 x 9 max filter
    touches_pixels: ClassVar[bool] = True

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        return picture.encode([self._paint(image) for image in picture.sample.images])

    def _paint(self, image: Image) -> Image:
        ink = image.convert("L").point(lambda grey: 255 * (grey < self.threshold))
        return _blacken(image, ink.filter(MaxFilter(2 * self.grow + 1)))


@dataclass(frozen=True, slots=True)
class Foreground(Original):
    """The bounding box of everything dark, padded, painted black. METHODS section 0."""

    threshold: int = 245  # grey, 0..255
    pad: float = 0.05  # of the picture's longer side
    touches_pixels: ClassVar[bool] = True

    def pixels(self, pixels: Tensor, picture: Picture) -> Tensor:
        return picture.encode([self._paint(image) for image in picture.sample.images])

    def _paint(self, image: Image) -> Image:
        box = image.convert("L").point(lambda grey: 255 * (grey < self.threshold)).getbbox()
        if box is None:
            return image
        pad = round(self.pad * max(image.size))
        cover = new_image("L", image.size)
        cover.paste(255, (max(box[0] - pad, 0), max(box[1] - pad, 0), box[2] + pad, box[3] + pad))
        return _blacken(image, cover)


def _blacken(image: Image, where: Image) -> Image:
    return composite(new_image("RGB", image.size), image, where)


@dataclass(frozen=True, slots=True)
class FeatureNull(Original):
    """All image embeddings and DeepStack features := 0; prompt and positions unchanged."""

    def features(self, features: ImageFeatures, picture: Picture) -> ImageFeatures:
        return features.map(torch.zeros_like)
