"""What every diagnostic is given: a bank, checkpoints, and the way to score and to sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar

from torch import Tensor

from mmcredit.data.encode import Encoder
from mmcredit.diagnostics.bank import Bank
from mmcredit.diagnostics.draws import Resampler
from mmcredit.diagnostics.findings import Findings
from mmcredit.evaluation.statistics import Bootstrap
from mmcredit.functional import gather, rank, world
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.engine import Engine
from mmcredit.rollout.text import collate
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Grades, Prompts, Responses, Rollout, UserError

T = TypeVar("T")


class Diagnostic(Protocol):
    """A measurement."""

    def __call__(self, setting: Setting) -> Findings:
        """Measure. All ranks must call it; all get the same."""


@dataclass
class Setting:
    """The parts that diagnostics share.

    Args:
        bank: the frozen reference.
        encoder: with the bank's own template.
        checkpoints: name -> what loads it; the first is the base that others are compared with.
        engine, grade: sample and grade free generations.
        bootstrap: of the intervals.
        batch: questions scored at a time. Which questions share a batch does not depend on the number of processes,
            so that results do not, either.
        temperature, packed, token_budget: as in ``Scorer``.
    """

    bank: Bank
    encoder: Encoder
    checkpoints: Mapping[str, Callable[[], VisionLanguageModel]]
    engine: Engine
    grade: Callable[[Prompts, Responses], Grades]
    bootstrap: Bootstrap
    batch: int = 16
    temperature: float = 1.0
    packed: bool = True
    token_budget: int = 16384

    def __post_init__(self) -> None:
        if self.batch < 1 or not self.checkpoints:
            raise UserError(f"batch={self.batch} must be at least 1, and a checkpoint is needed")

    @cached_property
    def resampler(self) -> Resampler:
        """Of the bank's questions."""
        return Resampler(self.bootstrap, len(self.bank))

    def policies(self) -> Iterator[tuple[str, VisionLanguageModel]]:
        """The checkpoints, one in memory at a time."""
        for name, load in self.checkpoints.items():
            yield name, load().eval().requires_grad_(False)

    def scorer(self, policy: VisionLanguageModel) -> Scorer:
        """Scores as the policy, which is its own teacher."""
        models = {Weights.OLD: policy, Weights.TEACHER: policy}
        return Scorer(models, self.encoder, self.temperature, self.packed, self.token_budget)

    def over(self, work: Callable[[int, int], list[T]]) -> list[T]:
        """What ``work(start, stop)`` gives of each batch of questions, in order; batches are shared out over ranks."""
        starts = range(0, len(self.bank), self.batch)
        mine = {s: work(s, min(s + self.batch, len(self.bank))) for s in starts[rank() :: world()]}
        found = {start: rows for part in gather(mine) for start, rows in part.items()}
        return [row for start in starts for row in found[start]]

    def frozen(self, policy: VisionLanguageModel, start: int, stop: int, scorer: Scorer | None = None) -> Rollout:
        """The bank's responses to some questions, with the scorer's log-probs if one is given."""
        rollout = self.bank.rollout(self.encoder, start, stop, policy.end_ids.tolist())
        return rollout if scorer is None else replace(rollout, logp_BGT=scorer.logp(rollout, View()).clone())

    def generated(self, policy: VisionLanguageModel, prompts: Prompts) -> tuple[Responses, Grades]:
        """Free generations, graded. The draws of a response depend on its sample's id alone."""
        sampled = self.engine.generate(policy, prompts, 0).ids
        responses = collate(self.encoder.processor.tokenizer, sampled, policy.end_ids.tolist())
        return responses, self.grade(prompts, responses)


def numbers(values: Tensor) -> list[float]:
    """Of a tensor, in order."""
    return [float(v) for v in values.flatten()]
