"""Image edits: pixel masks checked in pixel space, feature edits against hand loops."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from PIL import Image, ImageDraw
from torch import Tensor

from mmcredit.data.encode import Encoder
from mmcredit.data.templates import Template
from mmcredit.functional import stable_seed
from mmcredit.models.features import ImageFeatures
from mmcredit.models.processor import ImageOnlyProcessor
from mmcredit.models.tiny import build_processor, train_tokenizer
from mmcredit.scoring.edits import Blank, FeatureNull, ImageEdit, Original, Picture, PixelMask
from mmcredit.scoring.replace import Evidence, FeatureReplace, Gaussian, Reference, RingMean, Zero
from mmcredit.scoring.views import Scored, View, Weights
from mmcredit.types import Box, Sample

PATCH, MERGE = 16, 2
EVIDENCE = Box(32, 32, 32, 32)  # token 5 of 4x4


@pytest.fixture(scope="module")
def processor() -> ImageOnlyProcessor:
    return build_processor(train_tokenizer(["what is there?"], vocab_size=300))


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    return Image.frombytes("RGB", (width, height), random.Random(seed).randbytes(width * height * 3))


def see(processor: ImageOnlyProcessor, *images: Image.Image, name: str = "s") -> tuple[Tensor, Picture]:
    """Pixels as the processor gives them, and the picture an edit is told of."""
    out = processor.image_processor(images=list(images), return_tensors="pt")
    sample = Sample(name, images, "q", "a", bbox=EVIDENCE)
    encode = Encoder(processor, Template("", ".*")).pixels
    return out.pixel_values, Picture(sample, out.image_grid_thw, MERGE, processor.black_patch(), encode)


def masked_patches(edit: ImageEdit, pixels: Tensor, picture: Picture) -> Tensor:
    return (edit.pixels(pixels, picture) == picture.black).all(-1)


@pytest.mark.parametrize("sizes", [[(128, 128)], [(192, 128)], [(96, 160)], [(64, 64), (128, 96)]])
def test_pixel_mask_is_the_masked_picture_as_the_processor_sees_it(
    processor: ImageOnlyProcessor, sizes: list[tuple[int, int]]
) -> None:
    """Cells drawn in raster order, painted black on the picture and processed: exactly the same pixels."""
    images = [noise(*size, seed=i) for i, size in enumerate(sizes)]
    pixels, picture = see(processor, *images)
    assert picture.grid_thw.tolist() == [[1, h // PATCH, w // PATCH] for w, h in sizes], "no resize in this test"
    edit = PixelMask(0.5, (3, 7))
    generator = torch.Generator().manual_seed(stable_seed("s", 3, 7, "pixel mask"))
    for image in images:
        draw = ImageDraw.Draw(image)
        cells = torch.rand(image.height // PATCH, image.width // PATCH, generator=generator) < 0.5
        for row, column in cells.nonzero().tolist():
            x, y = column * PATCH, row * PATCH
            draw.rectangle((x, y, x + PATCH - 1, y + PATCH - 1), fill=(0, 0, 0))
    painted, _ = see(processor, *images)
    assert not torch.equal(painted, pixels)
    assert torch.equal(edit.pixels(pixels, picture), painted)


@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_pixel_mask_blackens_whole_patches_with_share_p(processor: ImageOnlyProcessor, p: float) -> None:
    pixels, picture = see(processor, noise(384, 384))
    edited, n = PixelMask(p).pixels(pixels, picture), 24 * 24
    black, same = (edited == picture.black).all(-1), (edited == pixels).all(-1)
    assert (black ^ same).all(), "every patch is either as it was or black as a whole"
    assert abs(int(black.sum()) - n * p) <= 4 * (n * p * (1 - p)) ** 0.5


def test_pixel_mask_depends_on_sample_and_seed_alone(processor: ImageOnlyProcessor) -> None:
    pixels, picture = see(processor, noise(256, 256))
    first = masked_patches(PixelMask(0.5, (0, 1)), pixels, picture)
    torch.manual_seed(9)
    assert torch.equal(masked_patches(PixelMask(0.5, (0, 1)), pixels, picture), first)
    other_picture = replace(picture, sample=replace(picture.sample, question="another?"))
    assert torch.equal(masked_patches(PixelMask(0.5, (0, 1)), pixels, other_picture), first)
    for step in (0, 2, 11):
        assert not torch.equal(masked_patches(PixelMask(0.5, (0, step)), pixels, picture), first)
    assert not torch.equal(masked_patches(PixelMask(0.5, (1, 1)), pixels, picture), first)
    renamed = replace(picture, sample=replace(picture.sample, id="t"))
    assert not torch.equal(masked_patches(PixelMask(0.5, (0, 1)), pixels, renamed), first)


def test_blank_is_a_black_picture(processor: ImageOnlyProcessor) -> None:
    pixels, picture = see(processor, noise(128, 96))
    black, _ = see(processor, Image.new("RGB", (128, 96)))
    assert torch.equal(Blank().pixels(pixels, picture), black)


def test_edits_do_not_write_into_what_they_are_given(processor: ImageOnlyProcessor) -> None:
    pixels, picture = see(processor, noise(128, 128))
    features = random_features(picture)
    before = pixels.clone(), [layer.clone() for layer in layers(features)]
    for edit in (PixelMask(), Blank(), FeatureNull(), FeatureReplace(), FeatureReplace(filling=Gaussian())):
        edit.pixels(pixels, picture)
        edit.features(features, picture)
    assert torch.equal(pixels, before[0])
    assert all(map(torch.equal, layers(features), before[1]))


@pytest.mark.parametrize("edit", [Original(), FeatureNull(), FeatureReplace()])
def test_feature_edits_leave_pixels_alone(processor: ImageOnlyProcessor, edit: ImageEdit) -> None:
    pixels, picture = see(processor, noise(128, 128))
    assert not edit.touches_pixels
    assert edit.pixels(pixels, picture) is pixels


@pytest.mark.parametrize("edit", [Original(), PixelMask(), Blank()])
def test_pixel_edits_leave_features_alone(picture: Picture, edit: ImageEdit) -> None:
    features = random_features(picture)
    assert edit.touches_pixels == (type(edit) is not Original)
    assert edit.features(features, picture) is features


@pytest.fixture
def picture() -> Picture:
    """4x4 and 2x2 merged tokens: two pictures, the boxes being on the first."""
    images = (Image.new("RGB", (128, 128)), Image.new("RGB", (64, 64)))
    sample = Sample("s", images, "q", "a", bbox=EVIDENCE)
    return Picture(sample, torch.tensor([[1, 8, 8], [1, 4, 4]]), MERGE, torch.zeros(1), lambda _: torch.zeros(0))


def random_features(picture: Picture, width: int = 5) -> ImageFeatures:
    """Features of all pictures at the input and in two DeepStack layers, every number different."""
    tokens = int(picture.grid_thw.prod(-1).sum()) // MERGE**2
    generator = torch.Generator().manual_seed(0)
    merged, *deepstack = torch.randn(3, tokens, width, generator=generator, dtype=torch.float64)
    return ImageFeatures(merged, tuple(deepstack))


def layers(features: ImageFeatures) -> list[Tensor]:
    return [features.merged_ND, *features.deepstack]


def test_feature_null(picture: Picture) -> None:
    nulled = FeatureNull().features(random_features(picture), picture)
    assert [layer.shape for layer in layers(nulled)] == [(20, 5)] * 3
    assert all(not layer.any() for layer in layers(nulled))


def expect(layer: Tensor, filling: str, region: list[int], ring: list[int], seed: int) -> list[list[float]]:
    """METHODS section 4, step 3, token by token; the first picture has tokens 0..15."""
    rows, width = layer.tolist(), layer.shape[1]
    new = [list(row) for row in rows]
    noise_ = torch.randn(len(region), width, generator=torch.Generator().manual_seed(seed)).tolist()
    for i, token in enumerate(region):
        for d in range(width):
            column = [rows[t][d] for t in range(16)]
            mean = sum(column) / 16
            std = (sum((v - mean) ** 2 for v in column) / 16) ** 0.5
            new[token][d] = {
                "mean": sum(rows[t][d] for t in ring) / len(ring),
                "zero": 0.0,
                "gaussian": mean + std * noise_[i][d],
            }[filling]
    return new


RING_1 = [0, 1, 2, 4, 6, 8, 9, 10]  # around token 5 of 4x4
RING_2 = [t for t in range(16) if t != 5]


@pytest.mark.parametrize(("ring", "around"), [(1, RING_1), (2, RING_2)])
@pytest.mark.parametrize(("name", "filling"), [("mean", RingMean()), ("zero", Zero()), ("gaussian", Gaussian())])
def test_replaced_region_by_hand(picture: Picture, name: str, filling: object, ring: int, around: list[int]) -> None:
    """Tolerance 1e-12 in float64; noise is drawn in float32."""
    features = random_features(picture)
    edited = FeatureReplace(Evidence(), filling, ring).features(features, picture)
    seed = stable_seed("s", Evidence(), "filling")
    for before, after in zip(layers(features), layers(edited), strict=True):
        wanted = torch.tensor(expect(before, name, [5], around, seed), dtype=torch.float64)
        torch.testing.assert_close(after, wanted, rtol=0, atol=1e-12)
        assert not torch.equal(after[5], before[5])
        assert torch.equal(after[16:], before[16:]), "the other picture stays"


@pytest.mark.parametrize("filling", [RingMean(), Zero(), Gaussian()])
def test_large_region_by_hand(picture: Picture, filling: object) -> None:
    """Tokens 5, 6, 9, 10; all others are around."""
    picture = replace(picture, sample=replace(picture.sample, bbox=Box(32, 32, 64, 64)))
    features = random_features(picture)
    edited = FeatureReplace(filling=filling).features(features, picture)
    region = [5, 6, 9, 10]
    name = {RingMean: "mean", Zero: "zero", Gaussian: "gaussian"}[type(filling)]
    others = [t for t in range(16) if t not in region]
    for before, after in zip(layers(features), layers(edited), strict=True):
        wanted = expect(before, name, region, others, stable_seed("s", Evidence(), "filling"))
        torch.testing.assert_close(after, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-12)


def test_region_that_is_everything_is_filled_with_its_mean(picture: Picture) -> None:
    picture = replace(picture, sample=replace(picture.sample, bbox=Box(0, 0, 128, 128)))
    features = random_features(picture)
    edited = FeatureReplace().features(features, picture)
    for before, after in zip(layers(features), layers(edited), strict=True):
        torch.testing.assert_close(after[:16], before[:16].mean(0).expand(16, 5), rtol=0, atol=1e-12)
    nothing_left = FeatureReplace(Reference(0), Gaussian()).features(features, picture)
    assert all(map(torch.equal, layers(nothing_left), layers(features)))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_reference_region_is_replaced_away_from_the_evidence(picture: Picture, index: int) -> None:
    features = random_features(picture)
    region = Reference(index).tokens(picture).tolist()
    edited = FeatureReplace(Reference(index), Zero()).features(features, picture)
    for before, after in zip(layers(features), layers(edited), strict=True):
        changed = (before != after).any(-1).nonzero().flatten().tolist()
        assert changed == region and region


def test_gaussian_has_the_moments_of_the_picture() -> None:
    """20,000 draws: mean and standard deviation within 5 standard errors."""
    layer = torch.tensor([[0.0, 10.0], [2.0, 10.0], [4.0, 16.0]])
    n = 20_000
    drawn = Gaussian()(layer, torch.tensor([0]), n, seed=3)
    mean, std = torch.tensor([2.0, 12.0]), torch.tensor([8 / 3, 8.0]).sqrt()
    assert ((drawn.mean(0) - mean).abs() <= 5 * std / n**0.5).all()
    assert ((drawn.std(0) - std).abs() <= 5 * std / (2 * n) ** 0.5).all()


def test_gaussian_is_drawn_by_sample_and_region(picture: Picture) -> None:
    features, edit = random_features(picture), FeatureReplace(filling=Gaussian())
    first = edit.features(features, picture).merged_ND
    torch.manual_seed(4)
    assert torch.equal(edit.features(features, picture).merged_ND, first)
    renamed = replace(picture, sample=replace(picture.sample, id="t"))
    assert not torch.equal(edit.features(features, renamed).merged_ND, first)


def test_half_precision_features_keep_their_type(picture: Picture) -> None:
    features = random_features(picture).map(Tensor.bfloat16)
    for filling in (RingMean(), Zero(), Gaussian()):
        edited = FeatureReplace(filling=filling).features(features, picture)
        assert all(layer.dtype == torch.bfloat16 for layer in layers(edited))


def views() -> list[View]:
    edits = [
        Original(),
        Blank(),
        FeatureNull(),
        PixelMask(0.5),
        PixelMask(0.6),
        PixelMask(0.5, (0, 1)),
        PixelMask(0.5, (0, 2)),
        FeatureReplace(),
        FeatureReplace(ring=1),
        FeatureReplace(filling=Zero()),
        FeatureReplace(filling=Gaussian()),
        FeatureReplace(Reference(0)),
        FeatureReplace(Reference(1)),
    ]
    return [
        *(View(image=edit) for edit in edits),
        View(Weights.REFERENCE),
        View(scored=Scored.ANSWER),
    ]


def test_views_are_equal_by_value_and_hashable() -> None:
    assert len(set(views())) == len(views()), "every difference matters"
    assert set(views()) | set(views()) == set(views())
    assert [hash(v) for v in views()] == [hash(v) for v in views()]
    assert View() == View(Weights.OLD, Original(), Scored.RESPONSE)
