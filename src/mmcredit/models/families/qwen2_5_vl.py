"""Qwen2.5-VL: mRoPE positions, window attention in the vision tower, merged image embeddings at the input only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from transformers import Cache

from mmcredit.models.families.common import last_hidden_state
from mmcredit.models.families.common import merged_features as image_features
from mmcredit.models.families.qwen3_vl import (
    VLLM_ADDS,
    decoder_layers,
    forbidden_ids,
    positions,
    smallest_picture,
    vision_blocks,
    vision_tower,
)
from mmcredit.models.image_only import Qwen25ImageOnlyProcessor

__all__ = [
    "LAYER_TYPES", "MODEL_TYPES", "PROCESSOR", "SHARES_PREFIX", "TRANSPOSED", "VLLM_ADDS", "decoder_layers",
    "forbidden_ids", "hidden_states", "image_features", "positions", "smallest_picture", "vision_blocks",
    "vision_tower",
]  # fmt: skip

MODEL_TYPES = ("qwen2_5_vl",)
LAYER_TYPES = {"full_attention"}  # a sliding window would be lost: our mask takes the place of the model's own
SHARES_PREFIX = True  # attention is the only way from token to token
PROCESSOR = Qwen25ImageOnlyProcessor
TRANSPOSED = ()


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
        position_ids=position_ids,
    )
