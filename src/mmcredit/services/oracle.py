"""The embedded world's oracle: exact verdicts on claims, for free."""

from __future__ import annotations

from mmcredit.data.world.grammar import unsupported
from mmcredit.types import Sample


def contradicts(response: str, sample: Sample) -> bool | None:
    """Whether the response carries a claim that the picture contradicts; None where not all objects are known."""
    return unsupported(response, sample.objects) if sample.objects else None
