"""Boxes on a prompt's first picture: what methods take away or compare with, and what routed claims speak of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mmcredit.scoring.regions import Grid, evidence_box, reference_box
from mmcredit.scoring.replace import Evidence, FeatureReplace, Reference
from mmcredit.scoring.views import View
from mmcredit.services.oracle import claimed_objects
from mmcredit.types import Box, Sample

KINDS = ("evidence", "reference", "routed")


@dataclass(frozen=True, slots=True)
class MappedBox:
    """A box in pixels of the original picture, one of ``KINDS``, and what it is in a few words."""

    kind: str
    box: Box
    label: str


def region_boxes(sample: Sample, views: Iterable[View]) -> list[MappedBox]:
    """The evidence box (a given one is always shown), and the reference boxes of the views.

    A reference region without a box, for want of room, is a random set of tokens and is not drawn.
    """
    if not sample.images:
        return []
    regions = dict.fromkeys(view.image.region for view in views if isinstance(view.image, FeatureReplace))
    (box, source), found = evidence_box(sample), list[MappedBox]()
    if Evidence() in regions or source != "centred":
        found.append(MappedBox("evidence", box, f"evidence ({source})"))
    grid = Grid(1, 1, 1, *sample.images[0].size)  # a reference box depends on the picture's size only
    for region in regions:
        if isinstance(region, Reference) and (other := reference_box(sample, grid, region.index)):
            found.append(MappedBox("reference", other, f"reference {region.index + 1}"))
    return found


def routed_boxes(sample: Sample, claims: Sequence[str]) -> list[MappedBox]:
    """Boxes of the objects that the claims speak of, where the source knows all objects; each object once, with a
    margin that leaves its evidence box visible."""
    if not sample.images:
        return []
    named = {claim: claimed_objects(claim, sample) for claim in claims}
    boxes = {o.box: f"routed: {claim}" for claim in reversed(claims) for o in named[claim]}
    return [MappedBox("routed", _widened(box, sample), label) for box, label in boxes.items()]


def _widened(box: Box, sample: Sample) -> Box:
    margin = max(sample.images[0].size) / 50
    return Box(box.x - margin, box.y - margin, box.w + 2 * margin, box.h + 2 * margin)
