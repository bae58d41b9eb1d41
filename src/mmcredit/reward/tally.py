"""What a validation found, over all ranks: every question counts once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torchmetrics import MeanMetric

from mmcredit.functional import gather
from mmcredit.types import Grades, Prompts, Responses, Sample


class Tally:
    """Means by validation set and question family.

    Args:
        contradicts: whether a response carries a claim that the picture contradicts; None where nobody knows.
    """

    def __init__(self, contradicts: Callable[[str, Sample], bool | None]) -> None:
        self.contradicts = contradicts
        self.metrics: dict[str, MeanMetric] = {}

    def clear(self) -> None:
        """Begin anew."""
        self.metrics.clear()

    def count(self, name: str, prompts: Prompts, responses: Responses, grades: Grades) -> None:
        """Add graded responses to the questions of one set."""
        for sample, text, correct in zip(prompts.samples, responses.texts, grades.correct_BG, strict=True):
            self._add(f"{name}/accuracy", correct)
            self._add(f"{name}/accuracy_{sample.family or 'other'}", correct)
            if correct.any() and (false_claim := self.contradicts(text[0], sample)) is not None:
                self._add(f"{name}/unsupported_rate", torch.tensor(false_claim))
        self._add(f"{name}/format", grades.format_BG)

    def means(self, device: torch.device) -> dict[str, Tensor]:
        """Mean of every key over all ranks. A key may be known to some ranks only, but all must take part in it."""
        for key in sorted({key for keys in gather([*self.metrics]) for key in keys}):
            self._add(key, torch.zeros(0))
        return {key: self.metrics[key].to(device).compute() for key in sorted(self.metrics)}

    def _add(self, key: str, values: Tensor) -> None:
        self.metrics.setdefault(key, MeanMetric()).update(values.float())
