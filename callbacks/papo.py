"""PAPO: a loss term that pulls the policy away from what it would say of a mostly blackened picture.

Departures from the paper's public code:
1. One mask a prompt and step, seeded; the public code draws one a response (``per_response``).
2. The annealing of gamma counts rollout steps from the first one that the method saw, and survives a resume.
3. Responses to prompts without a picture get no term at all, entropies included: nothing is masked there.

Suffixes: B prompts, G group, T tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.functional import k3, k3_clamped
from mmcredit.scoring.corrupted import corrupted_logp, corrupted_view, has_picture
from mmcredit.scoring.edits import ImageEdit, PixelMask
from mmcredit.types import Rollout, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer
    from mmcredit.scoring.views import View


def papo_loss(
    logp: Tensor, masked: Tensor, gamma: float, entropy_masked: float = 0.0, entropy_original: float = 0.0
) -> Tensor:
    """Token loss -gamma k3(policy || masked) + e1 H(masked) + e2 H(original), H = -logp of the sampled token.
    METHODS section 2; nats, of any shape."""
    return -gamma * k3(logp, masked) - entropy_masked * masked - entropy_original * logp


class PAPO(CreditCallback):
    """Perception-aware policy optimization. METHODS section 2.

    Args:
        gamma: weight of the divergence, at least 0.
        entropy_masked, entropy_original: penalties e1, e2 on the sampled entropy under the masked and the original
            picture.
        masked_grad: score the masked picture with the weights that are updated, with gradients (the paper's form);
            False: once a step with the weights that sampled (the public code's default).
        gamma_end: gamma reached after ``anneal_steps`` rollout steps, linearly; null for a constant gamma.
        anneal_steps: see above, at least 1.
        corruption: edit of the picture that masks it; None: 60 % of its cells blackened.
        per_response: another draw of the corruption for each response of a group; not with ``masked_grad``.

    Raises:
        UserError: a value out of its range.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2507.06448"
    needs_old_logp: ClassVar[bool] = False

    def __init__(
        self,
        gamma: float = 0.02,
        entropy_masked: float = 0.0,
        entropy_original: float = 0.0,
        masked_grad: bool = False,
        gamma_end: float | None = None,
        anneal_steps: int = 100,
        corruption: ImageEdit | None = None,
        per_response: bool = False,
    ) -> None:
        if gamma < 0 or (gamma_end is not None and gamma_end < 0) or anneal_steps < 1:
            raise UserError(
                f"callbacks.papo: gamma={gamma} and gamma_end={gamma_end} must be at least 0 (gamma_end or null), "
                f"anneal_steps={anneal_steps} at least 1"
            )
        if masked_grad and per_response:
            raise UserError("callbacks.papo: masked_grad=true has one mask a prompt; set per_response=false")
        self.gamma, self.gamma_end, self.anneal_steps = gamma, gamma_end, anneal_steps
        self.entropy_masked, self.entropy_original = entropy_masked, entropy_original
        self.masked_grad, self.per_response, self.corruption = masked_grad, per_response, corruption or PixelMask(0.6)
        self.began: int | None = None  # the first rollout step that the method saw
        self._masked = torch.empty(0)  # [B, G, T] of the step's whole rollout

    def extra_views(self, seed: int) -> Sequence[View]:
        return [corrupted_view(self.corruption, seed, 0)]

    def gamma_at(self, step: int) -> float:
        """Gamma of a rollout step."""
        if self.gamma_end is None:
            return self.gamma
        progress = min((step - (step if self.began is None else self.began)) / self.anneal_steps, 1.0)
        return self.gamma + progress * (self.gamma_end - self.gamma)

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        """Changes no advantage: scores the masked pictures while the weights are those that sampled."""
        self.began = rollout.step if self.began is None else self.began
        record.scalar("papo/gamma", self.gamma_at(rollout.step))
        if not self.masked_grad:
            where_BG = has_picture(rollout.prompts) & rollout.mask_BGT.any(-1)
            self._masked = corrupted_logp(rollout, scorer, self.corruption, where_BG, self.per_response)
        return advantage_BGT

    def on_loss(self, micro: Rollout, logp_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        masked = self._masked_logp(micro, scorer).to(logp_BGT.device)
        here = (has_picture(micro.prompts)[..., None] & micro.mask_BGT).to(logp_BGT.device)
        loss = papo_loss(
            logp_BGT, masked, self.gamma_at(micro.step), self.entropy_masked, self.entropy_original
        ).masked_fill(~here, 0.0)
        with torch.no_grad():
            record.extend("papo/kl_masked", k3(logp_BGT, masked)[here])
            record.extend("papo/k3_clamp_rate", k3_clamped(logp_BGT, masked)[here])
            record.extend("papo/entropy_masked", -masked[here])
            record.extend("papo/entropy_original", -logp_BGT[here])
        return loss

    def _masked_logp(self, micro: Rollout, scorer: Scorer) -> Tensor:
        if self.masked_grad:
            return scorer.train_scores(micro, corrupted_view(self.corruption, scorer.seed, micro.step)).logp_S
        return self._masked[micro.start : micro.start + len(micro.prompts)]

    def state_dict(self) -> dict[str, Any]:
        return {"began": self.began}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.began = state_dict["began"]
