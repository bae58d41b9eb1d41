"""Qwen3-VL: mRoPE positions, merged image embeddings at the input, DeepStack features after the first layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask
from transformers import Cache

from mmcredit.models.families.common import by_prompt, last_hidden_state
from mmcredit.models.features import ImageFeatures
from mmcredit.models.image_only import ImageOnlyProcessor

MODEL_TYPES = ("qwen3_vl", "qwen3_vl_moe")
LAYER_TYPES = {"full_attention"}  # a sliding window would be lost: our mask takes the place of the model's own
SHARES_PREFIX = True  # attention is the only way from token to token
PROCESSOR = ImageOnlyProcessor
# ends of names of weights whose last two axes checkpoints, and vLLM with them, have in the other order
TRANSPOSED = (".mlp.experts.gate_up_proj", ".mlp.experts.down_proj")
VLLM_ADDS = 0  # the chat template marks start and end of a picture, vLLM adds nothing


def forbidden_ids(config: Any) -> list[int]:
    """Tokens that stand for pixels and must never be sampled."""
    names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    return [getattr(config, name) for name in names]


def image_features(model: Any, pixels: Tensor, grids: Tensor, counts: Sequence[int]) -> list[ImageFeatures]:
    """Vision tower over several prompts at once.

    Args:
        pixels: [patches, patch_dim], the pictures of all prompts one after another.
        grids: [images, 3] patches (t, h, w).
        counts: number of pictures of each prompt.

    Returns:
        One entry a prompt: merged tokens of its pictures, in order.
    """
    out = model.model.get_image_features(pixels, grids, return_dict=True)
    sizes = [len(image) for image in out.pooler_output]
    layers = [out.pooler_output]
    for layer in out.deepstack_features:  # transformers 5.16 leaves the images of a layer in one tensor
        layers.append(layer.split(sizes) if isinstance(layer, Tensor) else layer)
    merged, *deep = (by_prompt(layer, counts) for layer in layers)
    return [ImageFeatures(first, tuple(rest)) for first, *rest in zip(merged, *deep, strict=True)]


def positions(model: Any, ids: Tensor, grids: Tensor | None) -> Tensor:
    """[3, L] rotary positions of one prompt, by the model's own rule."""
    kinds = (ids == model.config.image_token_id).int()
    position_ids, _ = model.model.get_rope_index(ids[None], mm_token_type_ids=kinds[None], image_grid_thw=grids)
    return position_ids[:, 0]


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
    """[R, L, D] last hidden states of the language model.

    Args:
        embeds: [R, L, D] input embeddings, image tokens already replaced.
        attention: [R, 1, L, K] additive mask over the K keys (cached ones first), or a block mask.
        real: [R, L] bool, tokens that are not padding.
        position_ids: [3, R, L].
        image_mask: [R, L] bool, image tokens.
        deepstack: one [image tokens, D] tensor a DeepStack layer.
        cache: keys and values seen before; grows.
    """
    return last_hidden_state(
        model.model.language_model,
        cache,
        inputs_embeds=embeds,
        attention_mask=attention,
        position_ids=position_ids,
        visual_pos_masks=image_mask if deepstack else None,
        deepstack_visual_embeds=list(deepstack) or None,
    )


def decoder_layers(model: Any) -> nn.ModuleList:
    """The language model's layers, first to last."""
    return model.model.language_model.layers


def vision_tower(model: Any) -> nn.Module:
    """The vision tower with its mergers."""
    return model.model.visual


def vision_blocks(model: Any) -> nn.ModuleList:
    """The vision tower's layers, first to last."""
    return model.model.visual.blocks


def smallest_picture(config: Any) -> tuple[Tensor, Tensor]:
    """[patches, patch_dim] pixels and [1, 3] grid of one black merged token."""
    vision = config.vision_config
    side, patch_dim = vision.spatial_merge_size, vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    return torch.zeros(side * side, patch_dim), torch.tensor([[1, side, side]])
