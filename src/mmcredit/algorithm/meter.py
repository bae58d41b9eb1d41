"""What a step costs: tokens that the scorers go through, seconds inside stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mmcredit.credit import Record
from mmcredit.functional import gather
from mmcredit.rollout.engine import Engine
from mmcredit.scoring.scorer import Scorer


@dataclass(frozen=True)
class Meter:
    """Reads the counters of a scorer and an engine."""

    scorer: Scorer
    engine: Engine

    @contextmanager
    def reading(self, record: Record) -> Iterator[None]:
        """Records what is gone through inside: ``scoring/tokens_<kind>``, of all ranks, and this rank's seconds."""
        tokens, seconds = self.tokens(), self.seconds()
        yield
        for kind, count in self.tokens().items():
            record.scalar(f"scoring/tokens_{kind}", count - tokens[kind])
        for part, total in self.seconds().items():
            record.seconds[part] = total - seconds[part]

    def tokens(self) -> Counter[str]:
        """What all ranks' scorers went through so far. All ranks must call it."""
        return sum(gather(self.scorer.tokens), Counter[str]())

    def seconds(self) -> Counter[str]:
        """So far, as ``stage/part``: sampling's, the vision tower's, and each view's."""
        scored = {f"score/{view}": seconds for view, seconds in self.scorer.seconds.items()}
        return Counter[str]({f"rollout/{part}": s for part, s in self.engine.seconds.items()} | scored)
