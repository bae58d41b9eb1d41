"""The doors of judges: two responses compared, key facts looked for, thinking scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mmcredit.services.service import Place, Service
from mmcredit.types import Sample


@dataclass(frozen=True, slots=True)
class Comparison:
    """Which of two responses to a sample's question tells better what the picture shows?

    Example: ``Comparison(sample, "red circle top left . \\\\boxed{1}", "\\\\boxed{1}", "large red circle top left .")``
    """

    sample: Sample
    response: str
    reference: str  # the response it is compared with
    truth: str  # pseudo ground truth: objects, relations and attributes of the picture, in words

    @property
    def key(self) -> tuple[str, ...]:
        """See ``Request``."""
        return self.sample.id, self.sample.question, self.response, self.reference, self.truth


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge says of a comparison. Neither preferred nor failed is a tie.

    Example: ``Verdict(True)``, ``Verdict(False, ("says red, is blue",))``, ``Verdict(failure="timeout")``
    """

    preferred: bool | None = None  # True: the response; False: the reference
    errors: tuple[str, ...] = ()  # perceptual errors of the response
    failure: str | None = None  # kind of fault; None when the judge answered

    @property
    def tie(self) -> bool:
        return self.preferred is None and self.failure is None


@dataclass(frozen=True, slots=True)
class FactRequest:
    """Which of these facts does a response state?"""

    sample: Sample
    response: str
    facts: tuple[str, ...]  # at least one

    @property
    def key(self) -> tuple[str, ...]:
        """See ``Request``."""
        return self.sample.id, self.sample.question, self.response, *self.facts


@dataclass(frozen=True, slots=True)
class ThinkingRequest:
    """How well does a response think?"""

    sample: Sample
    response: str

    @property
    def key(self) -> tuple[str, ...]:
        """See ``Request``."""
        return self.sample.id, self.sample.question, self.response


@dataclass(frozen=True, slots=True)
class Score:
    """A number a response. Example: ``Score(0.5)``, ``Score(failure="timeout")``"""

    value: float = 0.0  # 0..1; 0 where the judge failed
    failure: str | None = None  # kind of fault; None when the judge answered


Judge = Service[Comparison, Verdict]  # ``counters`` also hold ``ties`` and ``disagreements`` of the two orders
FactJudge = Service[FactRequest, Score]  # the share of the facts that is stated
ThinkingJudge = Service[ThinkingRequest, Score]  # quality of the thinking


def spread(scores: Mapping[Place, Score], shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """[B, G] float and bool: the score of each response, 0 without one, and whether the judge gave it."""
    value_BG, known_BG = torch.zeros(*shape), torch.zeros(*shape, dtype=torch.bool)
    for place, score in scores.items():
        value_BG[place], known_BG[place] = score.value, score.failure is None
    return value_BG, known_BG
