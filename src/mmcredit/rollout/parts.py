"""Rollouts taken apart by prompt and joined again; new fields of the types follow by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from mmcredit.types import Prompts, Rollout

Joiner = Callable[[Sequence[Any]], Any]


def take(rollout: Rollout, prompts: Sequence[int]) -> Rollout:
    """The rollout of these prompts (copies of the tensors)."""
    rows = torch.tensor(prompts, dtype=torch.long)
    return _leaves([rollout], lambda parts: parts[0][rows], lambda parts: tuple(parts[0][i] for i in prompts))


def join(rollouts: Sequence[Rollout]) -> Rollout:
    """The prompts of all rollouts of a step, in order; responses are padded to the longest."""
    return _leaves(rollouts, _cat, lambda parts: tuple(entry for part in parts for entry in part))


def interleave(versions: Sequence[Prompts]) -> Prompts:
    """The versions of each prompt side by side: [first of prompt 0, second of prompt 0, first of prompt 1, ...]."""
    return _leaves(versions, _cat, lambda parts: tuple(entry for same in zip(*parts, strict=True) for entry in same))


def _cat(parts: Sequence[Tensor]) -> Tensor:
    """Along B; tensors over tokens [B, G, T] are padded with 0."""
    longest = max(part.shape[-1] for part in parts)
    return torch.cat([pad(part, (0, longest - part.shape[-1])) for part in parts])


def _leaves(parts: Sequence[Any], tensors: Joiner, entries: Joiner) -> Any:
    """Tensors [B, ...] and tuples [B] inside equally built dataclasses, combined; other fields are the first's."""
    first, made = parts[0], type(parts[0])
    if is_dataclass(made):
        return made(*(_leaves([getattr(p, field.name) for p in parts], tensors, entries) for field in fields(made)))
    if isinstance(first, Tensor):
        return tensors(parts)
    return entries(parts) if isinstance(first, tuple) else first
