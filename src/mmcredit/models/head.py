"""The output head: what it is given, what it gives, and how it runs without the [tokens, vocabulary] matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint


class Predictors(NamedTuple):
    """What the scored tokens are predicted from: U different ones, as in ``Layout``."""

    hidden_UD: Tensor  # last hidden states before them
    targets_U: Tensor  # their ids
    unique_S: Tensor  # index into U of every scored token, row by row and response by response


class TokenScores(NamedTuple):
    """Of every scored token, row by row and response by response."""

    logp_S: Tensor  # nats, of the token itself
    entropy_S: Tensor  # nats, of the whole distribution before it


def in_chunks(work: Callable[..., tuple[Tensor, ...]], parts: Sequence[Tensor], size: int) -> tuple[Tensor, ...]:
    """``work(*parts)`` over ``size`` entries of the first dimension at a time, joined; recomputed in backward, so that
    what it holds inside never exceeds one chunk."""
    chunks = zip(*(part.split(size) for part in parts), strict=True)
    found = [checkpoint(work, *chunk, use_reentrant=False) for chunk in chunks]
    return tuple(torch.cat(values) for values in zip(*found, strict=True))
