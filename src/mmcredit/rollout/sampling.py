"""The sampling law, and draws that depend on nothing but their name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from mmcredit.functional import stable_seed
from mmcredit.types import UserError

SMALLEST_TEMPERATURE = 1e-3


class Sampled(NamedTuple):
    """What an engine sampled."""

    ids: list[list[Tensor]]  # [B][G] int64, on CPU, each up to and including its end token
    logps: list[list[Tensor]]  # [B][G] nats, float32, on CPU: logits over the temperature, as the scorer counts them
    exact: bool  # whether the scorer would give these log-probs, up to rounding of float32


@dataclass(frozen=True)
class SamplingLaw:
    """How tokens are drawn.

    Args:
        group: G, responses a prompt.
        temperature: logits are divided by it; 0 takes the most likely token.
        top_p: the smallest set of tokens that holds this mass; 1 keeps all.
        max_new_tokens: longest response, end token included.

    Raises:
        UserError: a value out of its range, or several equal greedy responses.
    """

    group: int
    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 64

    def __post_init__(self) -> None:
        if self.group < 1 or self.max_new_tokens < 1:
            raise UserError(
                f"rollout.group={self.group} and rollout.max_new_tokens={self.max_new_tokens} must be positive"
            )
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise UserError(
                f"rollout.temperature={self.temperature} must be >= 0 and rollout.top_p={self.top_p} in (0, 1]"
            )
        if 0 < self.temperature < SMALLEST_TEMPERATURE:
            raise UserError(
                f"rollout.temperature={self.temperature} is too small to divide by; use 0 for greedy responses"
            )
        if self.temperature == 0 and self.group > 1:
            raise UserError(
                f"rollout.temperature=0 gives {self.group} equal responses a prompt and no advantage; "
                "use a temperature above 0, e.g. rollout.temperature=1.0"
            )

    def single(self) -> SamplingLaw:
        """The same law for one response a prompt (validation)."""
        return replace(self, group=1)

    def logp(self, logits_RV: Tensor, token_N: Tensor, row_N: Tensor) -> Tensor:
        """[N] nats of tokens, each after the logits of its row, by temperature alone (greedy: 1)."""
        return (logits_RV / (self.temperature or 1.0)).log_softmax(-1)[row_N, token_N]

    def groups(self, values_NT: Tensor, lengths_N: Tensor) -> list[list[Tensor]]:
        """[N / G][G] values of each response up to its length, on CPU."""
        whole = [values[:n] for values, n in zip(values_NT.cpu(), lengths_N.tolist(), strict=True)]
        return [whole[i : i + self.group] for i in range(0, len(whole), self.group)]

    def probabilities(self, logits_RV: Tensor, forbidden: Tensor) -> Tensor:
        """[R, V] float64 probabilities after temperature, forbidden tokens and top-p."""
        logits = logits_RV.double().index_fill(-1, forbidden, -torch.inf)
        if self.temperature == 0:
            return torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()
        p = (logits / self.temperature).softmax(-1)
        if self.top_p < 1:
            ordered, order = p.sort(-1, descending=True)
            outside = ordered.cumsum(-1) - ordered >= self.top_p
            p = p.masked_fill(outside.gather(-1, order.argsort(-1)), 0.0)
            p = p / p.sum(-1, keepdim=True)
        return p


def draw_uniforms(seed: int, names: Sequence[str], step: int, law: SamplingLaw) -> Tensor:
    """[len(names)*G, max_new_tokens] uniforms in [0, 1): row (name, g) is seeded by (seed, name, step, g) alone."""
    rows = []
    for name in names:
        for g in range(law.group):
            generator = torch.Generator().manual_seed(stable_seed(seed, name, step, g, "sampling"))
            rows.append(torch.rand(law.max_new_tokens, generator=generator, dtype=torch.float64))
    return torch.stack(rows)


def pick(p_RV: Tensor, u_R: Tensor) -> Tensor:
    """[R] token whose cumulative interval holds u (inverse transform); never a token of probability 0."""
    cumulative = p_RV.cumsum(-1)
    target = u_R.to(p_RV.device) * cumulative[:, -1]
    token = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0]
    last_possible = p_RV.shape[1] - 1 - (p_RV > 0).int().flip(-1).argmax(-1)
    return torch.minimum(token, last_possible)
