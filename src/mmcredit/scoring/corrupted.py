"""Log-probs of a rollout whose pictures are corrupted by an edit: what VPPO, PAPO and PACG share."""

from __future__ import annotations

import torch
from torch import Tensor

from mmcredit.scoring.edits import ImageEdit
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View
from mmcredit.types import Prompts, Rollout


def corrupted_view(corruption: ImageEdit, seed: int, *draw: int) -> View:
    """The old policy's view of the corrupted picture; (run seed, step) draw it anew each step, the same for a group."""
    return View(image=corruption.seeded(seed, *draw))


def corrupted_logp(
    rollout: Rollout, scorer: Scorer, corruption: ImageEdit, where_BG: Tensor, per_response: bool = False
) -> Tensor:
    """[B, G, T] log-prob in nats under the corrupted pictures; 0 where not scored.

    Args:
        where_BG: bool, responses whose scores are needed; the others may be 0.
        per_response: another draw for each response of a group, scored without shared rows (the public forks).
    """
    if not per_response:
        return scorer.logp(rollout, corrupted_view(corruption, scorer.seed, rollout.step), where_BG)
    columns = []
    for g, own_G in enumerate(torch.eye(rollout.shape[1], dtype=torch.bool)):
        view = corrupted_view(corruption, scorer.seed, rollout.step, g)
        columns.append(scorer.logp(rollout, view, where_BG & own_G)[:, g])
    return torch.stack(columns, 1)


def has_picture(prompts: Prompts) -> Tensor:
    """[B, 1] bool, prompts that a corruption can change."""
    return torch.tensor([bool(sample.images) for sample in prompts.samples], dtype=torch.bool)[:, None]
