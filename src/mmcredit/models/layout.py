"""Token rows that share their prefix: ``[prompt | y_1 | ... | y_n]``.

A response sees the prompt and itself; its positions start right after the prompt. With one response a row this is
the plain padded batch; with a whole group it is exact, and the prompt is computed once instead of n times.
"""

from __future__ import annotations

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

    @property
    def tokens(self) -> int:
        return len(self.prompt_L) + sum(map(len, self.responses))


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows as tensors. R rows, L the longest row, S scored tokens (row by row, response by response)."""

    ids_RL: Tensor
    positions_3RL: Tensor
    attention_R1LL: Tensor  # additive: 0 sees, dtype minimum does not
    real_RL: Tensor  # bool, tokens that are not padding
    predictors_S: Tensor  # index into the flattened [R*L] of the token that predicts scored token s
    targets_S: Tensor  # ids of the scored tokens


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
        start, next_position = prompt_end, int(row.positions_3L.max()) + 1
        for i, y in enumerate(row.responses):
            end = start + len(y)
            ids[r, start:end] = y
            positions[:, r, start:end] = torch.arange(len(y), device=device) + next_position
            sees[r, start:end, base:prompt_end] = True
            sees[r, start:end, start:end] = _causal(len(y), device)
            if len(y):
                before = torch.arange(start - 1, end - 1, device=device)
                before[0] = prompt_end - 1
                chosen = slice(None) if row.scored is None else row.scored[i]
                predictors.append(before[chosen] + r * length)
                targets.append(y[chosen])
            start = end
    sees |= torch.eye(length, dtype=torch.bool, device=device)  # padding sees itself: no empty softmax row
    attention = torch.zeros(sees.shape, dtype=dtype, device=device).masked_fill_(~sees, torch.finfo(dtype).min)
    empty = torch.zeros(0, dtype=torch.long, device=device)
    scored = (torch.cat([empty, *predictors]), torch.cat([empty, *targets]))
    return Layout(ids, positions, attention[:, None], real, *scored)


def _causal(n: int, device: torch.device) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()
