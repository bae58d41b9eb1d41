"""Which evidence boxes can be measured. METHODS section 4, quality filter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mmcredit.scoring.regions import SOURCES, evidence_box, grid_of, patches_inside, reference_box
from mmcredit.types import Prompts, Sample, UserError

FAULTS = ("area", "tokens", "reference")  # in the order in which they are looked for


@dataclass(frozen=True, slots=True)
class Quality:
    """An evidence box of a fair size, that covers a token, and leaves room for every reference box.

    Args:
        min_area, max_area: bounds of the box's share of the picture, both allowed.

    Raises:
        UserError: bounds outside 0..1 or out of order.
    """

    min_area: float = 0.005
    max_area: float = 0.6

    def __post_init__(self) -> None:
        if not 0 <= self.min_area <= self.max_area <= 1:
            raise UserError(
                f"callbacks.ced.quality: min_area={self.min_area} and max_area={self.max_area} need "
                "0 <= min_area <= max_area <= 1; callbacks.ced.quality=null filters nothing"
            )

    def fault(self, sample: Sample, grid_thw: Tensor, references: int) -> str | None:
        """The first of ``FAULTS`` of the sample's evidence box.

        Args:
            grid_thw: int64 [images, 3] of the sample's pictures.
            references: number of reference boxes.
        """
        grid, (box, _) = grid_of(sample, grid_thw, 1), evidence_box(sample)
        if not self.min_area <= box.area / (grid.width * grid.height) <= self.max_area:
            return "area"
        if not all(map(len, patches_inside(box, grid))):
            return "tokens"
        if any(reference_box(sample, grid, i) is None for i in range(references)):
            return "reference"
        return None


FAIR = Quality()


def measurable(prompts: Prompts, quality: Quality | None, references: int) -> tuple[Tensor, dict[str, float]]:
    """[B] bool, prompts with a picture whose evidence box passes; and of all prompts with a picture, the share whose
    box is of each source (``box_<source>``) and has each fault (``rejected_<fault>``)."""
    fit_B, found = torch.zeros(len(prompts), dtype=torch.bool), list[str]()
    for b, (sample, grid) in enumerate(zip(prompts.samples, prompts.grids, strict=True)):
        if grid is None:
            continue
        fault = quality.fault(sample, grid, references) if quality else None
        fit_B[b] = fault is None
        found += [f"box_{evidence_box(sample)[1]}", f"rejected_{fault}"]
    names = [*(f"box_{source}" for source in SOURCES), *(f"rejected_{fault}" for fault in FAULTS)]
    return fit_B, {name: 2 * found.count(name) / max(len(found), 1) for name in names}
