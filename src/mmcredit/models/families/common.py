"""What several families share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

from mmcredit.models.features import ImageFeatures


@functools.cache
def cache_argument(kind: Any) -> str:
    """How a language model's ``forward`` calls its cache: renamed in transformers 5.2x."""
    return "cache" if "cache" in inspect.signature(kind.forward).parameters else "past_key_values"


def last_hidden_state(text: Any, cache: Cache | None, **inputs: Any) -> Tensor:
    """[R, L, D] of the language model; ``cache``, if given, grows."""
    kind: Any = type(text)
    return text(use_cache=cache is not None, **{cache_argument(kind): cache}, **inputs).last_hidden_state


def by_prompt(images: Sequence[Tensor], counts: Sequence[int]) -> list[Tensor]:
    """[tokens of an image, D] each, in order, to [tokens of a prompt, D] each; ``counts`` images a prompt."""
    groups, start = [], 0
    for count in counts:
        groups.append(torch.cat(list(images[start : start + count])))
        start += count
    return groups


def merged_features(model: Any, pixels: Tensor, grids: Tensor, counts: Sequence[int]) -> list[ImageFeatures]:
    """Vision tower of a Qwen model without DeepStack over several prompts at once; arguments as in ``qwen3_vl``."""
    out = model.model.get_image_features(pixels, grids, return_dict=True)
    return [ImageFeatures(merged) for merged in by_prompt(out.pooler_output, counts)]
