"""Tiles as patches and grids: nothing is lost, places are where they should be, and what cannot be named is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from PIL import Image
from tiny_families import InternVL, build
from transformers import AutoConfig

from mmcredit.data.encode import Encoder
from mmcredit.data.templates import Template
from mmcredit.models.load import export
from mmcredit.models.processor import load_processor
from mmcredit.models.tiles import TilesProcessor, to_patches, to_tiles
from mmcredit.scoring.edits import Blank, Picture, PixelMask
from mmcredit.scoring.regions import Grid, grid_of, region_tokens
from mmcredit.scoring.replace import FeatureReplace
from mmcredit.types import Box, Prompts, Sample, UserError

TEMPLATE = Template("{question}", ".*")
PATCH, MERGE, SIDE = 14, 2, 4  # SIDE: patches a side of a tile


def encoded(processor: TilesProcessor, *sizes: tuple[int, int]) -> Prompts:
    images = tuple(Image.effect_noise(size, 80).convert("RGB") for size in sizes)
    return Encoder(processor, TEMPLATE)([Sample("1", images, "what?", "a", proposal_bbox=Box(1, 1, 9, 9))])


def picture(processor: TilesProcessor, prompts: Prompts) -> Picture:
    assert prompts.grids[0] is not None
    return Picture(
        prompts.samples[0],
        prompts.grids[0],
        processor.merge,
        processor.black_patch(),
        Encoder(processor, TEMPLATE).pixels,
    )


@pytest.fixture(scope="module")
def tiled(processor: Any) -> TilesProcessor:
    return InternVL().processor(processor.tokenizer)


@pytest.fixture(scope="module")
def whole(processor: Any) -> TilesProcessor:
    return InternVL().processor(processor.tokenizer, max_patches=1)


def test_patches_become_the_same_tiles_again():
    tiles = torch.rand(5, 3, 4 * PATCH, 6 * PATCH)
    patches = to_patches(tiles, PATCH, MERGE)
    assert patches.shape == (5 * 4 * 6, 3 * PATCH * PATCH)
    assert torch.equal(to_tiles(patches, 4, 6, PATCH, MERGE), tiles)
    second_block = tiles[0, :, :PATCH, 2 * PATCH : 3 * PATCH]  # the first 2x2 patches come before it
    assert torch.equal(patches[4], second_block.flatten())


def test_grids_count_tiles_and_tokens(tiled, whole):
    prompts = encoded(tiled, (128, 128), (112, 50), (40, 40))
    assert prompts.grids[0].tolist() == [[5, SIDE, SIDE], [3, SIDE, SIDE], [1, SIDE, SIDE]]  # two with thumbnails
    assert prompts.pixels[0].shape == (9 * SIDE**2, 3 * PATCH**2)
    assert int((prompts.ids[0] == tiled.image_token_id).sum()) == 9 * tiled.image_seq_length
    assert encoded(whole, (128, 128), (112, 50)).grids[0].tolist() == [[1, SIDE, SIDE]] * 2


def test_black_is_black_as_normalised(whole):
    black = Encoder(whole, TEMPLATE)([Sample("1", (Image.new("RGB", (70, 30)),), "what?", "a")])
    torch.testing.assert_close(black.pixels[0], whole.black_patch().expand(SIDE**2, -1))


def test_places_on_tiles_are_refused_and_blanking_is_not(tiled):
    prompts = encoded(tiled, (128, 128))
    shown = picture(tiled, prompts)
    for edit in (lambda: PixelMask().pixels(prompts.pixels[0], shown), lambda: FeatureReplace().features(None, shown)):
        with pytest.raises(UserError, match="5 tiles are not supported for internvl yet"):
            edit()
    assert Blank().pixels(prompts.pixels[0], shown).unique(dim=0).shape[0] == 1


def test_pixel_cells_are_patches_of_the_single_tile(whole):
    prompts = encoded(whole, (128, 128))
    masked = PixelMask(0.5, (0,)).pixels(prompts.pixels[0], picture(whole, prompts))
    before, after = (to_tiles(p, SIDE, SIDE, PATCH, MERGE)[0] for p in (prompts.pixels[0], masked))
    cells = (before != after).unflatten(1, (SIDE, PATCH)).unflatten(3, (SIDE, PATCH)).any(0)
    changed = cells.any(1).any(-1)
    assert 0 < changed.sum() < SIDE**2
    black = whole.black_patch().view(3, PATCH, PATCH)
    for row in range(SIDE):
        for column in range(SIDE):
            cell = after[:, row * PATCH : (row + 1) * PATCH, column * PATCH : (column + 1) * PATCH]
            assert torch.equal(cell, black) == bool(changed[row, column])


def test_merged_tokens_of_a_tile_stand_row_by_row(processor):
    """The model's own merging of [row, column] patches: token k holds the patches that regions say it holds."""
    model = InternVL().model(processor.tokenizer).model
    merged = model.pixel_shuffle(torch.arange(float(SIDE**2)).view(1, SIDE, SIDE, 1), 0.5).view(-1, 4).long()
    side = SIDE * PATCH
    for row in range(SIDE):
        for column in range(SIDE):
            box = Box(column * PATCH, row * PATCH, PATCH, PATCH)
            (token,) = region_tokens(box, Grid(SIDE, SIDE, MERGE, side, side)).tolist()
            assert row * SIDE + column in merged[token].tolist()


def test_the_grid_of_a_single_tile_spans_the_picture(whole):
    prompts = encoded(whole, (120, 60))
    assert grid_of(prompts.samples[0], prompts.grids[0], whole.merge) == Grid(SIDE, SIDE, MERGE, 120, 60)


def test_one_tile_a_picture_is_a_setting(processor, tiled, tmp_path):
    policy = build(InternVL(), processor.tokenizer)
    export(policy, tiled, tmp_path / "policy")
    assert AutoConfig.from_pretrained(tmp_path / "policy").model_type == "internvl"
    one = load_processor(tmp_path / "policy", max_patches=1)
    assert encoded(one, (128, 128)).grids[0].tolist() == [[1, SIDE, SIDE]]
