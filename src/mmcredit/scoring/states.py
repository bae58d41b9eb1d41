"""Hidden states before the tokens that a view scores, in the order of the rollout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mmcredit.models.head import Predictors
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.rows import Part, order_of


@dataclass(frozen=True, slots=True)
class States:
    """N different states of width D, whatever rows they were computed in."""

    model: VisionLanguageModel  # whose head reads them
    hidden_ND: Tensor
    targets_N: Tensor  # int64, the tokens that follow
    unique_S: Tensor  # index into N of every scored token, in the order of the rows
    places_S: Tensor  # int64, on CPU: where each stands in the flattened [B, G, T]
    shape: tuple[int, ...]  # B, G, T

    @classmethod
    def of(
        cls, model: VisionLanguageModel, keep_BGT: Tensor, passes: Sequence[tuple[Sequence[Part], Predictors]]
    ) -> States:
        """From the rows of each pass and what they gave; at least one pass."""
        hidden, targets, unique = (torch.cat(values) for values in zip(*(found for _, found in passes), strict=True))
        before = torch.tensor([0, *(len(found.hidden_UD) for _, found in passes[:-1])]).cumsum(0)
        counts = torch.tensor([len(found.unique_S) for _, found in passes])
        unique = unique + before.repeat_interleave(counts).to(unique.device)
        places = torch.cat([order_of(parts, keep_BGT) for parts, _ in passes])
        return cls(model, hidden, targets, unique, places, tuple(keep_BGT.shape))

    @property
    def index_BGT(self) -> Tensor:
        """[B, G, T] int64, on CPU: into N; -1 where the view does not score."""
        index = torch.full((math.prod(self.shape),), -1)
        index[self.places_S] = self.unique_S.cpu()
        return index.view(self.shape)

    def spread(self, values_N: Tensor) -> Tensor:
        """[B, G, T] the value of each token's state; 0 where the view does not score."""
        zeros = torch.zeros(math.prod(self.shape), device=values_N.device)
        return zeros.index_copy(0, self.places_S.to(zeros.device), values_N[self.unique_S].float()).view(self.shape)
