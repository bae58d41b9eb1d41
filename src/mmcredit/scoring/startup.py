"""Checks of the scorer on the run's own model, before anything is trained."""

from __future__ import annotations

import logging

import torch

from mmcredit.models import flex
from mmcredit.scoring.edits import Blank
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View
from mmcredit.types import Rollout, UserError

log = logging.getLogger(__name__)
SMALLEST_CHANGE = 1e-6  # nats
PACKING_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 0.15, torch.float16: 0.05}  # nats, by weights' type


def check_sight(rollout: Rollout, scorer: Scorer) -> float:
    """Largest change of a log-prob when the pictures are blanked, nats; nothing to check without pictures.

    Raises:
        UserError: no log-prob changes.
    """
    if not any(sample.images for sample in rollout.prompts.samples):
        return 0.0
    change = float((scorer.logp(rollout, View()) - scorer.logp(rollout, View(image=Blank()))).abs().max())
    if change < SMALLEST_CHANGE:
        raise UserError(
            f"the model does not see: blanking the pictures changes no log-prob (largest change {change:.1e} nats); "
            "check model.policy.path and its processor"
        )
    return change


def check_packing(rollout: Rollout, scorer: Scorer) -> float:
    """Largest difference in nats between shared-prefix rows and padded rows; above the tolerance of the weights' type
    the scorer falls back to padded rows, with a warning."""
    if not scorer.packed:
        return 0.0
    tolerance = PACKING_TOLERANCE.get(scorer.policy.dtype, max(PACKING_TOLERANCE.values()))
    found = []
    for packed in (True, False):
        scorer.packed = packed
        scorer.forget()
        found.append(scorer.logp(rollout, View()).clone())
    difference = float((found[0] - found[1]).abs().max())
    scorer.forget()
    scorer.packed = difference <= tolerance
    if not scorer.packed:
        log.warning(
            "shared-prefix rows differ from padded rows by %.1e nats (allowed %.1e): falling back to padded rows, "
            "which are slower; please report the model",
            difference,
            tolerance,
        )
    return difference


def check_attention(rollout: Rollout, scorer: Scorer) -> float:
    """Largest difference in nats between FlexAttention's block masks and SDPA's dense ones; above the tolerance of the
    weights' type all models fall back to SDPA, with a warning. Nothing to check where block masks are not used."""
    hfs = [model.hf for model in scorer.models.values() if flex.chosen(model.hf, model.device)]
    if not hfs:
        return 0.0
    tolerance = PACKING_TOLERANCE.get(scorer.policy.dtype, max(PACKING_TOLERANCE.values()))
    found = []
    for name in (flex.NAME, "sdpa"):
        for hf in hfs:
            flex.choose(hf, name)
        scorer.forget()
        found.append(scorer.logp(rollout, View()).clone())
    difference = float((found[0] - found[1]).abs().max())
    scorer.forget()
    if difference <= tolerance:
        for hf in hfs:
            flex.choose(hf, flex.NAME)
    else:
        log.warning(
            "log-probs with FlexAttention differ from those with SDPA by %.1e nats (allowed %.1e): %s; please report "
            "the model",
            difference,
            tolerance,
            flex.FALLS_BACK,
        )
    return difference
