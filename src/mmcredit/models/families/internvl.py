"""InternVL: plain rotary positions, pictures cut into tiles, merged image embeddings at the input only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from transformers import Cache

from mmcredit.models.families.common import last_hidden_state
from mmcredit.models.features import ImageFeatures
from mmcredit.models.tiles import TilesProcessor, to_tiles

MODEL_TYPES = ("internvl",)
LAYER_TYPES = {"full_attention"}  # a sliding window would be lost: our mask takes the place of the model's own
SHARES_PREFIX = True  # attention is the only way from token to token
PROCESSOR = TilesProcessor
TRANSPOSED = ()
VLLM_ADDS = 1  # tokens on either side of a picture's that its processor adds, and vLLM's too


def forbidden_ids(config: Any) -> list[int]:
    """The token that stands for pixels. The start and end of a picture are plain text to this model."""
    return [config.image_token_id]


def image_features(model: Any, pixels: Tensor, grids: Tensor, counts: Sequence[int]) -> list[ImageFeatures]:
    """Vision tower over several prompts at once.

    Args:
        pixels: [patches, patch_dim], the tiles of all pictures of all prompts one after another.
        grids: [images, 3] tiles, and rows and columns of patches of a tile.
        counts: number of pictures of each prompt.

    Returns:
        One entry a prompt: merged tokens of its pictures, in order.
    """
    config = model.config
    rows, columns = grids[0, 1:].tolist()
    tiles = to_tiles(pixels, rows, columns, config.vision_config.patch_size[0], round(1 / config.downsample_ratio))
    merged = model.model.get_image_features(tiles, return_dict=True).pooler_output  # [tiles, tokens of a tile, D]
    parts = [int(part[:, 0].sum()) for part in grids.cpu().split(list(counts))]
    return [ImageFeatures(part.flatten(0, 1)) for part in merged.split(parts)]


def positions(model: Any, ids: Tensor, grids: Tensor | None) -> Tensor:
    """[3, L] positions of one prompt: one after another, the same three times."""
    return torch.arange(len(ids), device=ids.device).expand(3, -1)


def hidden_states(
    model: Any,
    embeds: Tensor,
    attention: Tensor | BlockMask,
    real: Tensor,
    position_ids: Tensor,
    image_mask: Tensor,
    deepstack: Sequence[Tensor],
    cache: Cache | None = None,
) -> Tensor:
    """[R, L, D] last hidden states of the language model; arguments as in ``qwen3_vl``. There is no DeepStack."""
    return last_hidden_state(
        model.model.language_model,
        cache,
        inputs_embeds=embeds,
        attention_mask=attention,
        position_ids=position_ids[0],
    )


def decoder_layers(model: Any) -> nn.ModuleList:
    """The language model's layers, first to last."""
    return model.model.language_model.layers


def vision_tower(model: Any) -> nn.Module:
    """The vision tower with its projector."""
    return nn.ModuleList([model.model.vision_tower, model.model.multi_modal_projector])


def vision_blocks(model: Any) -> nn.ModuleList:
    """The vision tower's layers, first to last."""
    return model.model.vision_tower.encoder.layer


def smallest_picture(config: Any) -> tuple[Tensor, Tensor]:
    """[patches, patch_dim] pixels and [1, 3] grid of one black tile."""
    vision = config.vision_config
    rows, columns = (size // patch for size, patch in zip(vision.image_size, vision.patch_size, strict=True))
    patch_dim = vision.num_channels * vision.patch_size[0] * vision.patch_size[1]
    return torch.zeros(rows * columns, patch_dim), torch.tensor([[1, rows, columns]])
