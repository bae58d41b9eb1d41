"""NoisyRollout: half of each group is sampled from a noisy picture, and the update pretends that it was the clean one.

What a policy says of a picture it sees badly is another kind of exploration. Reward and advantage are those of the
whole group; old and new log-probs are given the clean picture, and the noise fades in the course of training.

As in the public code (https://arxiv.org/abs/2504.13055, github.com/NUS-TRAIL/NoisyRollout): there, too, pixels are
noised for sampling alone. Departures:
1. Noise is drawn anew each step by a hash of run seed, step and sample id; steps count from 0.
2. Strength 0 is the picture itself; there, its last noise is one step of the thousand.

Suffixes: B prompts, G group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.scoring.edits import ImageEdit, Original, PixelNoise
from mmcredit.types import Rollout, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer

Schedule = Callable[[int], float]  # rollout step, from 0 -> share of the full strength, 0..1


def sigmoid_decay(step: int, steps: int, steepness: float = 30.0, middle: float = 2 / 3) -> float:
    """1 - sigmoid(steepness (step / steps - middle)): full at first, half at ``middle`` of the run, then none."""
    return 1 / (1 + math.exp(min(steepness * (step / steps - middle), 700.0)))


def linear_decay(step: int, steps: int) -> float:
    """From 1 at step 0 to 0 at ``steps`` and after."""
    return max(1 - step / steps, 0.0)


def constant(step: int) -> float:
    """Always 1."""
    return 1.0


class NoisyRollout(CreditCallback):
    """n responses to the clean picture and n to the noisy one form a group of 2n. METHODS section 8.

    Args:
        strength: of the distortion at the start, as ``distortion`` understands it; noise: 0..1.
        schedule: share of it at a rollout step; None keeps it.
        distortion: strength -> edit of the pixels.

    Raises:
        UserError: a strength that the distortion refuses, or a schedule that leaves 0..1.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2504.13055"
    needs_old_logp: ClassVar[bool] = False

    def __init__(
        self,
        strength: float = 0.5,
        schedule: Schedule | None = None,
        distortion: Callable[[float], ImageEdit] = PixelNoise,
    ) -> None:
        self.strength, self.schedule, self.distortion = strength, schedule or constant, distortion
        try:
            shares = [self.schedule(step) for step in (0, 1, 10**6)]
        except ZeroDivisionError:
            shares = [math.nan]
        if not all(0 <= share <= 1 for share in shares):
            raise UserError(f"callbacks.noisy_rollout.schedule gives {shares}: 0..1 is needed; steps must be positive")
        distortion(strength)

    def strength_at(self, step: int) -> float:
        """Strength at a rollout step."""
        return self.strength * self.schedule(step)

    def sampling_edits(self, step: int) -> Sequence[ImageEdit]:
        return Original(), self.distortion(self.strength_at(step))

    def on_reward(self, rollout: Rollout, scorer: Scorer, record: Record) -> Tensor:
        """Changes no reward: reports how both halves did."""
        clean_BG, noisy_BG = rollout.grades.correct_BG.float().chunk(2, 1)
        record.scalar("noisy_rollout/strength", self.strength_at(rollout.step))
        record.scalar("noisy_rollout/accuracy_clean", clean_BG.mean())
        record.scalar("noisy_rollout/accuracy_noisy", noisy_BG.mean())
        return rollout.reward_BG
