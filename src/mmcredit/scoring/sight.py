"""The sight check: a policy whose log-probs do not change when the picture is blanked is not trained on pictures."""

from __future__ import annotations

from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import Blank, View
from mmcredit.types import Rollout, UserError

SMALLEST_CHANGE = 1e-6  # nats


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
