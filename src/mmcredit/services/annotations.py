"""Samples without the annotations that a judge needs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from mmcredit.types import Sample

log = logging.getLogger(__name__)


class Bare:
    """Counts such samples, and warns of them the first time.

    Args:
        method: its name, for the warning.
        fault: what they lack, what follows from it, and what to do.
        annotated: whether a sample has all that is needed.
    """

    def __init__(self, method: str, fault: str, annotated: Callable[[Sample], object]) -> None:
        self.method, self.fault, self.annotated = method, fault, annotated
        self.warned = False

    def rate(self, samples: Sequence[Sample]) -> float:
        """Their share, 0..1; 0 of no samples."""
        bare = [sample.id for sample in samples if not self.annotated(sample)]
        if bare and not self.warned:
            self.warned = True
            log.warning(
                "%s: %d of %d samples of this step (e.g. %s) have %s",
                self.method, len(bare), len(samples), bare[0], self.fault,
            )  # fmt: skip
        return len(bare) / max(len(samples), 1)
