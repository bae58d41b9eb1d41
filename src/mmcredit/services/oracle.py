"""The embedded world's oracle: exact verdicts on claims, for free."""

from __future__ import annotations

from mmcredit.data.world.grammar import named, parse, unsupported
from mmcredit.data.world.scene import CANVAS
from mmcredit.types import Box, Sample, SceneObject


def contradicts(response: str, sample: Sample) -> bool | None:
    """Whether the response carries a claim that the picture contradicts; None where not all objects are known."""
    return unsupported(response, sample.objects) if sample.objects else None


def claimed_objects(response: str, sample: Sample) -> tuple[SceneObject, ...]:
    """Objects of the picture that claims of the response speak of; none where not all objects are known."""
    return named(response, sample.objects)


def quarters(response: str) -> tuple[Box, ...]:
    """The quarter of the picture that each claim of something seen names, in order; claims without a corner give none.

    A 20 x 20 object in its quarter has an IoU of .10 with it, a 28 x 28 one .19.
    """
    half = CANVAS / 2
    corners = [claim.corner.split() for claim in parse(response) if claim.corner and not claim.negated]
    return tuple(Box(half * (x == "right"), half * (y == "bottom"), half, half) for y, x in corners)
