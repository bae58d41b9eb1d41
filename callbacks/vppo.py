"""VPPO: credit for the tokens, and the responses, that depend on the picture.

How far a token's distribution moves when half of the picture is blackened is estimated by k3 on the sampled token. Of
each response only the most dependent tokens keep their advantage, and responses that depend more get more of it.

Departures from the paper's public code:
1. Minimum, maximum and mean of the response scores are those of the whole rollout batch over all ranks; the public
   code takes rank-local extremes and the mean of a micro-batch (``scope: rank`` and ``micro_batch``).
2. One mask a prompt and step, seeded; the public code draws one a response (``per_response``).
3. Responses to prompts without a picture keep their advantage and stay out of the statistics.

Suffixes: B prompts, G group, T tokens, N measured responses, M responses of all ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import across_ranks, k3, masked_mean
from mmcredit.scoring.corrupted import corrupted_logp, corrupted_view, has_picture
from mmcredit.scoring.edits import ImageEdit, PixelMask
from mmcredit.types import Rollout, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer
    from mmcredit.scoring.views import View

SCOPES = {"batch": across_ranks, "rank": lambda values: values}
SMALLEST_RANGE = 1e-6  # of the scores; METHODS section 1, step 3


def vppo_weights(
    score_N: Tensor, known_M: Tensor, beta_min: float = 0.9, micro_batch: int | None = None
) -> tuple[Tensor, Tensor]:
    """[N] weight alpha of each response and [N] beta_max; METHODS section 1, step 3.

    Example: scores 0, .2, .8, 1 (their own batch) -> alpha .90, .94, 1.06, 1.10 with beta_max 1.10.

    Args:
        score_N: mean dependence of each response.
        known_M: scores of the batch that gives minimum, maximum and mean.
        micro_batch: take the mean over consecutive pieces of ``score_N`` of this size instead (the public code).
    """
    if len(known_M) < 2 or known_M.max() - known_M.min() <= SMALLEST_RANGE:
        return torch.ones_like(score_N), torch.ones_like(score_N)
    low, high = known_M.min(), known_M.max()
    scaled_N, scaled_M = (((s - low) / (high - low)).clamp(0, 1) for s in (score_N, known_M))
    mean_N = scaled_M.mean().expand_as(scaled_N)
    if micro_batch is not None:
        mean_N = torch.cat([piece.mean().expand_as(piece) for piece in scaled_N.split(micro_batch)])
    beta_max_N = beta_min + (1 - beta_min) / (mean_N + 1e-8)
    return beta_min + scaled_N * (beta_max_N - beta_min), beta_max_N


def vppo_keep(dependence_BGT: Tensor, mask_BGT: Tensor, keep: float = 0.4) -> Tensor:
    """[B, G, T] bool, the ceil(keep T_i) valid tokens of largest dependence, the earlier of equal ones; METHODS
    section 1, step 4."""
    count_BG = (keep * mask_BGT.sum(-1).double() - 1e-9).ceil()  # .4 x 5 = 2 tokens, whatever the rounding
    order = dependence_BGT.masked_fill(~mask_BGT, -torch.inf).sort(dim=-1, descending=True, stable=True).indices
    return (order.argsort(-1) < count_BG[..., None]) & mask_BGT


class VPPO(CreditCallback):
    """Visually perceptive policy optimization. METHODS section 1.

    Args:
        keep: share of a response's tokens that keep their advantage, above 0, at most 1.
        beta_min: weight of the least dependent response, 0..1; 1 turns the weights off.
        corruption: edit of the picture under which tokens are scored again; None: half of its cells blackened.
        scope: whose scores give minimum, maximum and mean: ``batch`` (all ranks) or ``rank``.
        micro_batch: responses over which the public code takes the mean; null for the scope's own.
        per_response: another draw of the corruption for each response of a group.

    Raises:
        UserError: a value out of its range.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2510.09285"

    def __init__(
        self,
        keep: float = 0.4,
        beta_min: float = 0.9,
        corruption: ImageEdit | None = None,
        scope: str = "batch",
        micro_batch: int | None = None,
        per_response: bool = False,
    ) -> None:
        if not 0 < keep <= 1 or not 0 <= beta_min <= 1:
            raise UserError(f"callbacks.vppo: keep={keep} must be above 0, at most 1, and beta_min={beta_min} in 0..1")
        if scope not in SCOPES:
            raise UserError(f"callbacks.vppo.scope={scope!r} does not exist; use one of {', '.join(SCOPES)}")
        if micro_batch is not None and micro_batch < 1:
            raise UserError(f"callbacks.vppo.micro_batch={micro_batch} must be at least 1, or null")
        self.keep, self.beta_min, self.gather, self.micro_batch = keep, beta_min, SCOPES[scope], micro_batch
        self.corruption, self.per_response = corruption or PixelMask(0.5), per_response

    def extra_views(self, seed: int) -> Sequence[View]:
        return [corrupted_view(self.corruption, seed, 0)]

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        measured_BG = has_picture(rollout.prompts) & rollout.mask_BGT.any(-1)
        masked = corrupted_logp(rollout, scorer, self.corruption, measured_BG, self.per_response)
        # in float64: small dependences would drown in exp(x) - x - 1 and their order be noise
        dependence = k3(rollout.logp_BGT.double(), masked.double()) * rollout.mask_BGT  # S_t, step 1
        score_N = masked_mean(dependence, rollout.mask_BGT, dim=-1)[measured_BG]  # s_i, step 2
        alpha_N, beta_max_N = vppo_weights(score_N, self.gather(score_N), self.beta_min, self.micro_batch)
        alpha_BG = torch.ones(measured_BG.shape, dtype=torch.float64).masked_scatter(measured_BG, alpha_N)
        keep = vppo_keep(dependence, rollout.mask_BGT, self.keep)
        kept = keep | ~measured_BG[..., None]
        self._report(record, rollout.mask_BGT & measured_BG[..., None], dependence, keep, alpha_BG)
        record.histogram("vppo/beta_max", beta_max_N)
        record.tokens("vppo/dependence", dependence)
        record.tokens("vppo/weight", alpha_BG[..., None] * kept * rollout.mask_BGT)
        if len(alpha_M := across_ranks(alpha_N)):
            record.scalar("vppo/alpha_min", alpha_M.min())
            record.scalar("vppo/alpha_max", alpha_M.max())
        return (advantage_BGT * alpha_BG[..., None] * kept).to(advantage_BGT.dtype)

    def _report(self, record: Record, mask: Tensor, dependence: Tensor, keep: Tensor, alpha_BG: Tensor) -> None:
        measured_BG, kept, rejected = mask.any(-1), mask & keep, mask & ~keep
        record.responses("vppo/alpha", alpha_BG, measured_BG)
        record.responses("vppo/score", masked_mean(dependence, mask, dim=-1), measured_BG)
        smallest = dependence.masked_fill(~kept, torch.inf).amin(-1)
        record.histogram("vppo/threshold", smallest[measured_BG])
        record.histogram("vppo/selected", dependence[kept])
        record.histogram("vppo/rejected", dependence[rejected])
        record.histogram("vppo/kept_rate", keep[mask])
