"""Which prompts a step trains on: all that were drawn, or (DAPO) those whose group can give an advantage.

Decisions are those of all ranks together: the kept prompts are numbered in the order in which one rank would have
drawn them, and cut at the size of the rollout batch. Each stays on the rank that sampled it.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, chain

from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from mmcredit.credit import Record
from mmcredit.functional import gather, rank, world
from mmcredit.rollout.parts import join, take
from mmcredit.types import Rollout, UserError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DynamicSampling:
    """Keep a prompt iff ``low`` < mean accuracy of its group < ``high``; draw until the batch is full (DAPO).

    Args:
        low, high: bounds, shares of right answers; both excluded.
        max_tries: rollout tries a step, each of a whole batch; then the step trains on what was kept.

    Raises:
        UserError: a value out of its range.
    """

    low: float = 0.01
    high: float = 0.99
    max_tries: int = 20

    def __post_init__(self) -> None:
        if not self.low < self.high or self.max_tries < 1:
            raise UserError(
                f"algorithm.selection: low={self.low} must be below high={self.high}, "
                f"and max_tries={self.max_tries} at least 1"
            )

    def keep(self, correct_BG: Tensor) -> Tensor:
        """[B] bool."""
        accuracy_B = correct_BG.float().mean(1)
        return (accuracy_B > self.low) & (accuracy_B < self.high)


@dataclass(frozen=True)
class Batch:
    """The prompts of this rank that a step trains on, and where they stand among those of all ranks."""

    rollout: Rollout
    places: tuple[int, ...]  # ascending; empty where the step is skipped: ``rollout`` then holds the last try
    total: int  # prompts of all ranks

    def mini_batches(self, size: int) -> list[slice]:
        """This rank's part of each mini-batch of ``size`` prompts over all ranks; may be empty."""
        cuts = [bisect_left(self.places, start) for start in range(0, self.total, size)]
        return [slice(*ends) for ends in zip(cuts, [*cuts[1:], len(self.places)], strict=True)]


def collect(draw: Callable[[], Rollout], selection: DynamicSampling | None, record: Record) -> Batch:
    """Draw rollouts until the batch is full.

    Args:
        draw: samples and grades this rank's share of the next data batch, of equal size on all ranks.
        selection: which prompts stay; None for all.
    """
    if selection is None:
        rollout = draw()
        total = len(rollout.prompts) * world()
        return Batch(rollout, tuple(range(rank(), total, world())), total)
    parts, places, kept, solved, tries, size = list[Rollout](), list[int](), 0, 0.0, 0, 1
    while kept < size and tries < selection.max_tries:
        tried = draw()
        correct = tried.grades.correct_BG
        ranks = gather((selection.keep(correct).tolist(), float(correct.float().mean())))
        flags = list(chain(*zip(*(keep for keep, _ in ranks), strict=True)))  # in the order of the data batch
        tries, size, solved = tries + 1, len(flags), solved + sum(accuracy for _, accuracy in ranks) / len(ranks)
        before = accumulate(flags, initial=kept)  # kept prompts before each
        mine = [(i, n) for i, (keep, n) in enumerate(zip(flags, before, strict=False)) if keep and n < size]
        mine = [(i // world(), n) for i, n in mine if i % world() == rank()]
        parts.append(take(tried, [i for i, _ in mine]))
        places += [n for _, n in mine]
        kept += sum(flags)
    record.scalar("selection/tries", tries)
    record.scalar("selection/solve_rate", solved / tries)
    record.scalar("selection/kept_rate", kept / (tries * size))
    if kept < size:
        _warn(tried.step, kept, size, tries, solved / tries)
    return Batch(join(parts) if kept else tried, tuple(places), min(kept, size))


@rank_zero_only
def _warn(step: int, kept: int, size: int, tries: int, solve_rate: float) -> None:
    log.warning(
        "step %d: dynamic sampling kept %d of %d prompts in %d tries (solve rate %.2f): %s",
        step + 1, kept, size, tries, solve_rate, "training on them" if kept else "the step is skipped",
    )  # fmt: skip
