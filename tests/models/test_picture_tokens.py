"""Sizes and boxes by arithmetic against what each family's processor really does, at random sizes and boxes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_families import InternVL, Qwen25
from torch import Tensor

from mmcredit.data.encode import Encoder
from mmcredit.data.gate import BadRow, Outline
from mmcredit.data.templates import Template
from mmcredit.scoring.regions import Grid, grid_of, region_tokens
from mmcredit.types import Box, Sample

TEMPLATE = Template("Think, then answer.", ".*")
FAMILIES = {
    "qwen3_vl": lambda processor: processor,  # patch 16
    "qwen2_5_vl": lambda processor: Qwen25().processor(processor.tokenizer),  # patch 14
    "internvl": lambda processor: InternVL().processor(processor.tokenizer, max_patches=1),
    "internvl in tiles": lambda processor: InternVL().processor(processor.tokenizer),
}
WHOLE = [name for name in FAMILIES if "tiles" not in name]


@pytest.fixture(scope="module", params=FAMILIES)
def encoder(request: pytest.FixtureRequest, processor: Any) -> Encoder:
    return Encoder(FAMILIES[request.param](processor), TEMPLATE)


def random_size(rng: random.Random) -> tuple[int, int]:
    """Tiny, ordinary and extreme, up to an aspect of 200."""
    short = rng.choice([1, 2, 3, rng.randint(1, 30), rng.randint(1, 400)])
    long = min(200 * short, rng.choice([short, rng.randint(short, short + 300), rng.randint(short, 900 + short)]))
    return (short, long) if rng.random() < 0.5 else (long, short)


def test_length_is_that_of_the_encoded_prompt(encoder: Encoder) -> None:
    """Random sizes, zero to three pictures, before and between the words; ``longest`` is never below."""
    rng = random.Random(0)
    for _ in range(60):
        sizes = tuple(random_size(rng) for _ in range(rng.randint(0, 3)))
        question = rng.choice(
            ["wie viele é \u0958?", "how many red objects?", " and ".join(["x", *["<image>"] * len(sizes)])]
        )
        prompts = encoder([Sample("1", tuple(Image.new("RGB", size) for size in sizes), question, "a")])
        total, pictures = encoder.length(Outline("1", question, sizes))
        assert total == len(prompts.ids[0]), (sizes, question)
        shown = int((prompts.ids[0] == encoder.processor.image_token_id).sum())
        ends = pictures - shown  # InternVL's start and end of each picture
        assert ends in (0, 2 * len(sizes))
        assert total <= encoder.longest(Outline("1", question, sizes))


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (29, 27), (24, 198), (31, 639), (690, 15420), (1, 200), (200, 1)])
def test_sizes_that_broke_other_pipelines(encoder: Encoder, size: tuple[int, int]) -> None:
    prompts = encoder([Sample("1", (Image.new("RGB", size),), "what?", "a")])
    assert encoder.length(Outline("1", "what?", (size,)))[0] == len(prompts.ids[0])


@pytest.mark.parametrize("size", [(1, 300), (10, 3000)])
def test_what_the_processor_refuses_has_no_length(encoder: Encoder, size: tuple[int, int]) -> None:
    outline = Outline("1", "what?", (size,))
    if hasattr(encoder.processor.image_processor, "merge_size"):
        with pytest.raises(BadRow) as error:
            encoder.length(outline)
        assert error.value.reason == "image_aspect"
    else:  # InternVL squeezes any picture into its tiles
        prompts = encoder([Sample("1", (Image.new("RGB", size),), "what?", "a")])
        assert encoder.length(outline)[0] == len(prompts.ids[0])


def patch_means(encoder: Encoder, picture: Image.Image) -> tuple[Tensor, Grid]:
    """[rows, columns, 3] mean color of each patch, 0..1, as the model gets it, and the grid of the picture."""
    sample = Sample("1", (picture,), "what?", "a")
    prompts, processor = encoder([sample]), encoder.processor
    pixels, grid_thw = prompts.pixels[0], prompts.grids[0]
    assert pixels is not None and grid_thw is not None
    grid = grid_of(sample, grid_thw, processor.merge)
    images, m = processor.image_processor, processor.merge
    mean, std = (torch.tensor(values).view(3, 1) for values in (images.image_mean, images.image_std))
    colors = (pixels.view(len(pixels), 3, -1) * std + mean).mean(-1)
    blocks = colors.view(grid.rows // m, grid.columns // m, m, m, 3)
    return blocks.transpose(1, 2).reshape(grid.rows, grid.columns, 3), grid


@pytest.mark.parametrize("family", WHOLE)
def test_patches_lie_where_the_grid_says(processor: Any, family: str) -> None:
    """Red grows from left to right, green from top to bottom: a patch's color tells its centre, to 1.5 % of a side."""
    encoder, rng = Encoder(FAMILIES[family](processor), TEMPLATE), random.Random(1)
    for _ in range(25):
        width, height = rng.randint(150, 700), rng.randint(150, 700)
        x, y = (np.arange(n) + 0.5 for n in (width, height))
        ramp = np.zeros((height, width, 3))
        ramp[..., 0], ramp[..., 1] = x / width * 255, y[:, None] / height * 255
        colors, grid = patch_means(encoder, Image.fromarray(ramp.round().astype(np.uint8)))
        centre_x = (torch.arange(grid.columns) + 0.5) / grid.columns
        centre_y = (torch.arange(grid.rows) + 0.5) / grid.rows
        inner = (slice(1, -1), slice(1, -1))  # the resize bends the ramp at the border
        assert (colors[..., 0] - centre_x)[inner].abs().max() < 0.015, (width, height)
        assert (colors[..., 1] - centre_y[:, None])[inner].abs().max() < 0.015, (width, height)


@pytest.mark.parametrize("family", WHOLE)
def test_a_box_covers_the_tokens_whose_pixels_change(processor: Any, family: str) -> None:
    """A white box is painted on black. Patches that are white throughout must be in the region; tokens without a patch
    a fifth of which is white must not be, unless the box is so thin that it has only its nearest patch."""
    encoder, rng = Encoder(FAMILIES[family](processor), TEMPLATE), random.Random(2)
    thin = 0
    for _ in range(60):
        width, height = rng.randint(40, 500), rng.randint(40, 500)
        w, h = rng.randint(2, width), rng.randint(2, height)
        box = Box(rng.randint(0, width - w), rng.randint(0, height - h), w, h)
        picture = Image.new("RGB", (width, height))
        picture.paste("white", (int(box.x), int(box.y), int(box.x + w), int(box.y + h)))
        colors, grid = patch_means(encoder, picture)
        white, m = colors[..., 0], grid.merge
        number = torch.arange(grid.tokens).view(grid.merged).repeat_interleave(m, 0).repeat_interleave(m, 1)
        region = set(region_tokens(box, grid).tolist())
        assert set(number[white > 0.97].tolist()) <= region, (box, grid)
        if w * grid.columns < width or h * grid.rows < height:
            thin += 1
            assert region & set(number[white >= white.max() - 0.15].tolist()), (box, grid)
        else:  # a centre inside means that a quarter at least of the patch is white: half of it each way
            assert region <= set(number[white > 0.2].tolist()), (box, grid)
    assert 0 < thin < 45


def test_tokens_follow_the_family_s_own_patch(processor: Any) -> None:
    """320x320: 10x10 merged tokens of 32 pixels, or 11x11 of 28; InternVL's tile always has as many."""
    counts = {name: FAMILIES[name](processor).picture_tokens(320, 320) for name in WHOLE}
    assert counts == {"qwen3_vl": 100, "qwen2_5_vl": 121, "internvl": 4 + 2}


@pytest.mark.parametrize("family", ["qwen3_vl", "qwen2_5_vl"])
def test_resizing_twice_is_resizing_once(processor: Any, family: str) -> None:
    """Who hands on a resized picture, to an engine say, gets the same grid there."""
    shown, rng = FAMILIES[family](processor), random.Random(3)
    patch = shown.image_processor.patch_size
    for _ in range(60):
        short = rng.randint(1, 150)
        picture = Image.new("RGB", tuple(rng.sample([short, rng.randint(short + 1, 8 * short + 1)], 2)))
        _, rows, columns = shown.image_processor(images=[picture], return_tensors="pt").image_grid_thw[0].tolist()
        tokens = rows * columns // shown.merge**2
        assert shown.picture_tokens(*picture.size) == shown.picture_tokens(columns * patch, rows * patch) == tokens
