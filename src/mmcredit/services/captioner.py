"""The doors of the captioner: what a picture shows, in words, and whether a question is about it."""

from __future__ import annotations

from dataclasses import dataclass

from mmcredit.services.judge import Score
from mmcredit.services.service import Service
from mmcredit.types import Sample


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A sample to describe or to rate."""

    sample: Sample

    @property
    def key(self) -> tuple[str, ...]:
        """See ``Request``."""
        return self.sample.id, self.sample.question


@dataclass(frozen=True, slots=True)
class Description:
    """What a picture shows.

    Example: ``Description("red circle top left . blue square top right .", ("red circle top left",))``
    """

    text: str = ""  # pseudo ground truth: objects, relations and attributes
    key_facts: tuple[str, ...] = ()  # those that the question needs
    failure: str | None = None  # kind of fault; None when the captioner answered


Captioner = Service[SampleRequest, Description]
Relevance = Service[SampleRequest, Score]  # how far the question is about the picture, 0..1
