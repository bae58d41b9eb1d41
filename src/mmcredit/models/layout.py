"""Token rows that share their prefixes: ``[prompt | y_1 | rest of y_2 | ... | rest of y_n]``.

The responses of a row form a tree: what a response shares with the one before it is not computed again. A token sees
the prompt and its own path; positions go on right after the prompt. With one response a row this is the plain padded
batch; with a whole group it is exact, and the prompt, or any beginning that responses share, is computed once.
Tokens stand in the tree's depth-first order, so those that see a token are it and all up to the end of its branch: one
number a token says who sees whom.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mmcredit.models.features import ImageFeatures


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt with the responses that share it."""

    prompt_L: Tensor  # int64
    positions_3L: Tensor  # int64, rotary positions of the prompt
    features: ImageFeatures | None
    responses: tuple[Tensor, ...]  # int64 [T_i] each
    scored: tuple[Tensor, ...] | None = None  # bool [T_i] each: tokens to score; None scores all
    shared: tuple[int, ...] | None = None  # tokens each shares with the response before it; None shares none

    @property
    def starts(self) -> tuple[int, ...]:
        """First token of each response that has a place of its own."""
        return self.shared if self.shared is not None else (0,) * len(self.responses)

    @property
    def tokens(self) -> int:
        return len(self.prompt_L) + sum(map(len, self.responses)) - sum(self.starts)


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows as tensors. R rows, L the longest row, S scored tokens (row by row, response by response), U of them
    different: with another token before them, or another token."""

    ids_RL: Tensor
    positions_3RL: Tensor
    ends_RL: Tensor  # int32, first place after the last token that sees this one
    real_RL: Tensor  # bool, tokens that are not padding
    predictors_U: Tensor  # index into the flattened [R*L] of the token before the scored one
    targets_U: Tensor  # ids of the scored tokens
    unique_S: Tensor  # index into U


def common_prefixes(responses: Sequence[Sequence[int]]) -> list[int]:
    """Tokens that each response shares with the one before it; 0 for the first."""
    shared = [0] * len(responses)
    for i in range(1, len(responses)):
        both = zip(responses[i - 1], responses[i], strict=False)
        same = next((t for t, (a, b) in enumerate(both) if a != b), None)
        shared[i] = min(len(responses[i - 1]), len(responses[i])) if same is None else same
    return shared


def cheapest_sharing(
    prompt: int, lengths: Sequence[int], shared: Sequence[int], budget: int, parameters: int, pair: int
) -> int:
    """How many responses should share a row: all of them save prompt tokens, few of them save attention.

    Compares the multiply-adds of a forward pass, tokens x parameters + pair x sum of squared row lengths (as with dense
    masks), over rows that keep to the budget.

    Args:
        prompt: prompt tokens.
        lengths: tokens of each response.
        shared: tokens that each shares with the one before it.
        budget: longest row.
        parameters: of the language model's layers.
        pair: multiply-adds of a pair of tokens in attention, over all layers.
    """
    own = [n - s for n, s in zip(lengths, shared, strict=True)]

    def cost(size: int) -> float:
        firsts = range(0, len(lengths), size)
        rows = [prompt + shared[i] + sum(own[i : i + size]) for i in firsts]  # a row's first response is whole
        if size > 1 and max(rows) > budget:
            return math.inf
        return sum(rows) * parameters + pair * sum(row * row for row in rows)

    sizes = {math.ceil(len(lengths) / rows) for rows in range(1, len(lengths) + 1)}
    return min(sorted(sizes), key=cost)


def lay_out(rows: Sequence[Row], pad_id: int, left_pad: bool = False) -> Layout:
    """Place the rows in one tensor. ``left_pad`` puts the padding first (results do not depend on it)."""
    length = max(row.tokens for row in rows)
    device = rows[0].prompt_L.device
    ids = torch.full((len(rows), length), pad_id, device=device)
    positions = torch.zeros(3, len(rows), length, dtype=torch.long, device=device)
    alone = torch.arange(1, length + 1, dtype=torch.int32, device=device)
    ends = alone.repeat(len(rows), 1)  # padding sees itself: no empty softmax row
    real = torch.zeros(len(rows), length, dtype=torch.bool, device=device)
    predictors, targets = [], []
    for r, row in enumerate(rows):
        base = length - row.tokens if left_pad else 0
        prompt_end = base + len(row.prompt_L)
        ids[r, base:prompt_end], positions[:, r, base:prompt_end] = row.prompt_L, row.positions_3L
        real[r, base : base + row.tokens] = True
        ends[r, base : base + row.tokens] = base + row.tokens
        end, next_position = prompt_end, int(row.positions_3L.max()) + 1
        path = torch.tensor([prompt_end - 1], device=device)  # places of the last prompt token and of a response
        for i, (y, first) in enumerate(zip(row.responses, row.starts, strict=True)):
            start, end = end, end + len(y) - first
            ids[r, start:end] = y[first:]
            positions[:, r, start:end] = torch.arange(first, len(y), device=device) + next_position
            ends[r, path[first + 1 :]] = start  # here the branches end that this response leaves
            path = torch.cat([path[: first + 1], torch.arange(start, end, device=device)])
            chosen = slice(None) if row.scored is None else row.scored[i]
            predictors.append(path[: len(y)][chosen] + r * length)
            targets.append(y[chosen])
    empty = torch.zeros(2, 0, dtype=torch.long, device=device)
    pairs = torch.cat([empty, torch.stack([torch.cat(predictors), torch.cat(targets)])], 1) if predictors else empty
    (predictors_U, targets_U), unique_S = pairs.unique(dim=1, return_inverse=True)
    return Layout(ids, positions, ends, real, predictors_U, targets_U, unique_S)


def dense_mask(ends_RL: Tensor, dtype: torch.dtype) -> Tensor:
    """[R, 1, L, L] additive mask: 0 where a query (first L) sees a key (second L), the type's minimum where it does
    not."""
    places_L = torch.arange(ends_RL.shape[1], device=ends_RL.device)
    sees_RLL = (places_L[:, None] >= places_L) & (places_L[:, None] < ends_RL[:, None])
    mask = torch.zeros(sees_RLL.shape, dtype=dtype, device=ends_RL.device)
    return mask.masked_fill_(~sees_RLL, torch.finfo(dtype).min)[:, None]
