"""Weights as checkpoints have them, where Hugging Face's class holds them otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor


def as_published(weights: Iterable[tuple[str, Tensor]], family: ModuleType) -> Iterator[tuple[str, Tensor]]:
    """The same weights in the layout of the family's checkpoints; none is copied."""
    for name, weight in weights:
        yield name, weight.transpose(-2, -1) if name.endswith(family.TRANSPOSED) else weight


def save_published(hf: Any, weights: Mapping[str, Tensor], family: ModuleType, folder: Path) -> None:
    """``save_pretrained`` of given weights. transformers would save ``TRANSPOSED`` as it holds them: it turns what it
    loads, but does not turn it back."""
    state = {name: weight.contiguous() for name, weight in as_published(weights.items(), family)}
    hf.save_pretrained(folder, state_dict=state, save_original_format=not family.TRANSPOSED)
