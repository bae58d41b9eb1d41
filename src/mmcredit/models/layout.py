"""Token rows that share their prefixes: ``[prompt | y_1 | rest of y_2 | ... | rest of y_n]``.

The responses of a row form a tree: what a response shares with the one before it is not computed again. A token sees
the prompt and its own path; positions go on right after the prompt. With one response a row this is the plain padded
batch; with a whole group it is exact, and the prompt, or any beginning that responses share, is computed once.
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
    attention_R1LL: Tensor  # additive: 0 sees, dtype minimum does not
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

    Compares the multiply-adds of a forward pass, tokens x parameters + pair x sum of squared row lengths (the mask is
    dense), over rows that keep to the budget.

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


def lay_out(rows: Sequence[Row], pad_id: int, dtype: torch.dtype, left_pad: bool = False) -> Layout:
    """Place the rows in one tensor. ``left_pad`` puts the padding first (results do not depend on it)."""
    length = max(row.tokens for row in rows)
    device = rows[0].prompt_L.device
    ids = torch.full((len(rows), length), pad_id, device=device)
    positions = torch.zeros(3, len(rows), length, dtype=torch.long, device=device)
    sees = torch.zeros(len(rows), length, length, dtype=torch.bool, device=device)
    real = torch.zeros(len(rows), length, dtype=torch.bool, device=device)
    predictors, targets = [], []
    for r, row in enumerate(rows):
        base = length - row.tokens if left_pad else 0
        prompt_end = base + len(row.prompt_L)
        ids[r, base:prompt_end], positions[:, r, base:prompt_end] = row.prompt_L, row.positions_3L
        sees[r, base:prompt_end, base:prompt_end] = _causal(len(row.prompt_L), device)
        real[r, base : base + row.tokens] = True
        end, next_position = prompt_end, int(row.positions_3L.max()) + 1
        path = torch.tensor([prompt_end - 1], device=device)  # places of the last prompt token and of a response
        for i, (y, first) in enumerate(zip(row.responses, row.starts, strict=True)):
            start, end = end, end + len(y) - first
            ids[r, start:end] = y[first:]
            positions[:, r, start:end] = torch.arange(first, len(y), device=device) + next_position
            sees[r, start:end, base:prompt_end] = True
            sees[r, start:end, path[1 : first + 1]] = True
            sees[r, start:end, start:end] = _causal(end - start, device)
            path = torch.cat([path[: first + 1], torch.arange(start, end, device=device)])
            chosen = slice(None) if row.scored is None else row.scored[i]
            predictors.append(path[: len(y)][chosen] + r * length)
            targets.append(y[chosen])
    sees |= torch.eye(length, dtype=torch.bool, device=device)  # padding sees itself: no empty softmax row
    attention = torch.zeros(sees.shape, dtype=dtype, device=device).masked_fill_(~sees, torch.finfo(dtype).min)
    empty = torch.zeros(2, 0, dtype=torch.long, device=device)
    pairs = torch.cat([empty, torch.stack([torch.cat(predictors), torch.cat(targets)])], 1) if predictors else empty
    (predictors_U, targets_U), unique_S = pairs.unique(dim=1, return_inverse=True)
    return Layout(ids, positions, attention[:, None], real, predictors_U, targets_U, unique_S)


def _causal(n: int, device: torch.device) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()
