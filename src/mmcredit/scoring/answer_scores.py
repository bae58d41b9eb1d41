"""What an answer earns by itself, R_ans of CED: rollout -> [B, G]. METHODS section 4, step 7."""

from __future__ import annotations

import torch
from torch import Tensor

from mmcredit.functional import masked_mean
from mmcredit.types import Rollout


def binary(rollout: Rollout) -> Tensor:
    """[B, G] 1 for a correct answer, 0 otherwise."""
    return rollout.grades.correct_BG.float()


def signed(rollout: Rollout) -> Tensor:
    """[B, G] +1 for a correct answer, -0.25 otherwise (the reference code)."""
    return torch.where(rollout.grades.correct_BG, 1.0, -0.25)


def composite(rollout: Rollout, tau_answer: float = 1.0, tau_response: float = 0.2) -> Tensor:
    """[B, G] .30 answer score + .70 response score of right answers, each exp(mean log-prob / tau) in 0..1; 0 for wrong
    ones. The paper's Table A.1."""
    scores = [
        (masked_mean(rollout.logp_BGT, scope_BGT, dim=-1) / tau).exp()
        for scope_BGT, tau in ((rollout.grades.answer_BGT, tau_answer), (rollout.mask_BGT, tau_response))
    ]
    return rollout.grades.correct_BG * (0.3 * scores[0] + 0.7 * scores[1])
