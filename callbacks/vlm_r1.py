"""VLM-R1: a response is rewarded for the boxes that it gives.

Where METHODS is silent:
1. Boxes are all ``[x1, y1, x2, y2]`` after ``</think>`` (of the whole response without one); ``iou`` takes the first
   of them and the primary gold box.
2. ``mean_average_precision`` knows one class and no confidences: boxes rank in the order in which they are given.
3. Samples without a gold box are rewarded for a right answer in place of the box.

Suffixes: B prompts, G group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from mmcredit.credit import CreditCallback, Record
from mmcredit.types import Box, Rollout, Sample, UserError

if TYPE_CHECKING:
    from mmcredit.scoring.scorer import Scorer

MAX_BOXES = 100  # of a response
_NUMBER = r"\s{0,9}(-?\d{1,6}(?:\.\d{1,9})?)\s{0,9}"
_BOX = re.compile(rf"\[{_NUMBER},{_NUMBER},{_NUMBER},{_NUMBER}\]")


def corner_boxes(response: str) -> tuple[Box, ...]:
    """Every ``[x1, y1, x2, y2]`` with x1 < x2 and y1 < y2, alone, in a list, or in a JSON object."""
    corners = [tuple(map(float, m.groups())) for m in _BOX.finditer(response.rpartition("</think>")[2])]
    return tuple(Box(x1, y1, x2 - x1, y2 - y1) for x1, y1, x2, y2 in corners if x1 < x2 and y1 < y2)[:MAX_BOXES]


def iou(given: Sequence[Box], gold: Sequence[Box]) -> float:
    """Intersection over union of the first boxes, 0..1; 0 where none is given."""
    return given[0].iou(gold[0]) if given else 0.0


def average_precision(given: Sequence[Box], gold: Sequence[Box], threshold: float) -> float:
    """Area under the precision-recall curve, precision made monotone. Each given box, in order, takes the free gold
    box that it meets most, if their IoU reaches the threshold."""
    free, hits, precisions = list(gold), 0, list[float]()
    for rank, box in enumerate(given, 1):
        best = max(free, key=box.iou, default=None)
        if best is not None and box.iou(best) >= threshold:
            free.remove(best)
            hits += 1
            precisions.append(hits / rank)  # each hit raises recall by 1 / len(gold)
    return sum(max(precisions[i:]) for i in range(hits)) / len(gold)


def mean_average_precision(given: Sequence[Box], gold: Sequence[Box]) -> float:
    """Mean of the average precision at IoU .50, .55, ..., .95, in 0..1."""
    return sum(average_precision(given, gold, 0.5 + 0.05 * i) for i in range(10)) / 10


class VLMR1(CreditCallback):
    """R = box score + format. METHODS section 8.

    Args:
        score: (given boxes, gold boxes, at least one) -> 0..1: ``iou`` or ``mean_average_precision``.
        read: response -> boxes: ``corner_boxes``, or ``mmcredit.services.oracle.quarters`` for the embedded world.
        scale: what the response's coordinates reach at the right and lower edge (1000 for Qwen3-VL, 1 for shares of
            the sides); null: they are pixels of the original image, as the gold boxes are.
        format_weight: weight of a kept template.

    Raises:
        UserError: scale not above 0.
    """

    paper: ClassVar[str] = "https://arxiv.org/abs/2504.07615"
    without_box: ClassVar[str | None] = "a right answer is rewarded in place of the box"

    def __init__(
        self,
        score: Callable[[Sequence[Box], Sequence[Box]], float] = iou,
        read: Callable[[str], Sequence[Box]] = corner_boxes,
        scale: float | None = None,
        format_weight: float = 1.0,
    ) -> None:
        if scale is not None and scale <= 0:
            raise UserError(f"callbacks.vlm_r1.scale={scale} must be above 0, or null for pixels")
        self.score, self.read, self.scale, self.format_weight = score, read, scale, format_weight

    def on_reward(self, rollout: Rollout, scorer: Scorer, record: Record) -> Tensor:
        score_BG = rollout.grades.correct_BG.float()
        given_BG, boxed_BG = torch.zeros_like(score_BG), torch.zeros_like(rollout.grades.correct_BG)
        for b, sample in enumerate(rollout.prompts.samples):
            if not (gold := gold_boxes(sample)):
                continue
            boxed_BG[b] = True
            for g, text in enumerate(rollout.responses.texts[b]):
                given = [self._on_image(box, sample) for box in self.read(text)]
                score_BG[b, g], given_BG[b, g] = self.score(given, gold), len(given)
        record.responses("vlm_r1/box_score", score_BG, boxed_BG)
        record.responses("vlm_r1/boxes", given_BG, boxed_BG)
        record.scalar("vlm_r1/no_box_rate", 1 - boxed_BG.float().mean() if boxed_BG.numel() else 0.0)
        return score_BG + self.format_weight * rollout.grades.format_BG

    def _on_image(self, box: Box, sample: Sample) -> Box:
        """In pixels of the original image."""
        if self.scale is None:
            return box
        x, y = (side / self.scale for side in sample.images[0].size)
        return Box(box.x * x, box.y * y, box.w * x, box.h * y)


def gold_boxes(sample: Sample) -> tuple[Box, ...]:
    """Every object that matters, the primary one first; else the one evidence box that the sample names."""
    return sample.boxes or ((sample.named_box,) if sample.named_box else ())
