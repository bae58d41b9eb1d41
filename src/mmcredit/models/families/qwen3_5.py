"""Qwen3.5: mRoPE positions, merged image embeddings at the input, linear-attention layers between the usual ones.

A linear-attention layer carries a state from token to token, in order of place and whatever the attention mask says.
A response that shared its row with others would start from the state the one before it left: rows cannot be shared.
For the same reason padding must not write into the state: the layers get the mask of real tokens.
"""

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
from mmcredit.models.image_only import ImageOnlyProcessor

__all__ = [
    "LAYER_TYPES", "MODEL_TYPES", "PROCESSOR", "SHARES_PREFIX", "TRANSPOSED", "VLLM_ADDS", "decoder_layers",
    "forbidden_ids", "hidden_states", "image_features", "positions", "smallest_picture", "vision_blocks",
    "vision_tower",
]  # fmt: skip

MODEL_TYPES = ("qwen3_5", "qwen3_5_moe")
LAYER_TYPES = {"full_attention", "linear_attention"}
SHARES_PREFIX = False
PROCESSOR = ImageOnlyProcessor
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
        attention_mask={"full_attention": attention, "linear_attention": real},
        position_ids=position_ids,
    )
