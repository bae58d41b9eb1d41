"""The rule-based reward: accuracy and format, weighted."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from mmcredit.data.answers import Kind, options
from mmcredit.data.templates import Template
from mmcredit.reward.extract import Extractor
from mmcredit.reward.verdict import Outcome, Verdict
from mmcredit.reward.verifier import Verifier
from mmcredit.rollout.text import tokens_meeting
from mmcredit.types import Grades, Prompts, Responses, Sample, Span


@dataclass(frozen=True)
class RuleReward:
    """``accuracy`` x [answer right] + ``format`` x [template kept]. METHODS section 0, Parents.

    Args:
        verifier: compares the final answer with the gold one.
        template: tells whether a response is well formed.
        accuracy, format: the weights.
        extract: finds the final answer.
    """

    verifier: Verifier
    template: Template
    accuracy: float = 1.0
    format: float = 0.0
    extract: Extractor = field(default_factory=Extractor)

    def __call__(self, prompts: Prompts, responses: Responses) -> Grades:
        """Grade every response. ``reward_BG`` is float32."""
        found = [[self.extract(text) for text in group] for group in responses.texts]
        answers = tuple(
            tuple(text[slice(*span)] if span else None for text, span in zip(texts, spans, strict=True))
            for texts, spans in zip(responses.texts, found, strict=True)
        )
        verdicts = [
            [self._verdict(sample, answer) for answer in group]
            for sample, group in zip(prompts.samples, answers, strict=True)
        ]
        correct_BG = torch.tensor([[verdict.right for verdict in group] for group in verdicts])
        outcomes = tuple(tuple(str(verdict.outcome) for verdict in group) for group in verdicts)
        format_BG = torch.tensor([[self.template.well_formed(text) for text in group] for group in responses.texts])
        answer_BGT = torch.zeros_like(responses.mask_BGT)
        for b, group in enumerate(found):
            for g, span in enumerate(group):
                _mark(answer_BGT[b, g], responses.spans[b][g], span)
        reward_BG = self.accuracy * correct_BG + self.format * format_BG
        return Grades(reward_BG.float(), correct_BG, format_BG, answers, answer_BGT, outcomes)

    def _verdict(self, sample: Sample, answer: str | None) -> Verdict:
        if answer is None:
            return Verdict(Outcome.UNPARSABLE, Kind.UNPARSABLE, "extract")
        return self.verifier.verify(sample.answer, answer, options(sample))


def _mark(mask_T: torch.Tensor, spans: tuple[Span, ...], wanted: Span | None) -> None:
    if wanted is not None:
        mask_T[: len(spans)] = torch.tensor(tokens_meeting(spans, wanted), dtype=torch.bool)
