"""The rule-based reward: accuracy and format, weighted."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mmcredit.data.templates import Template
from mmcredit.reward.extract import final_answer
from mmcredit.reward.verifier import Verifier
from mmcredit.rollout.text import tokens_meeting
from mmcredit.types import Grades, Prompts, Responses, Span


@dataclass(frozen=True)
class RuleReward:
    """``accuracy`` x [answer right] + ``format`` x [template kept]. METHODS section 0, Parents."""

    verifier: Verifier
    template: Template
    accuracy: float = 1.0
    format: float = 0.0

    def __call__(self, prompts: Prompts, responses: Responses) -> Grades:
        """Grade every response. ``reward_BG`` is float32."""
        found = [[final_answer(text) for text in group] for group in responses.texts]
        answers = tuple(
            tuple(text[slice(*span)] if span else None for text, span in zip(texts, spans, strict=True))
            for texts, spans in zip(responses.texts, found, strict=True)
        )
        correct_BG = torch.tensor(
            [
                [answer is not None and self.verifier.matches(sample.answer, answer) for answer in group]
                for sample, group in zip(prompts.samples, answers, strict=True)
            ]
        )
        format_BG = torch.tensor([[self.template.well_formed(text) for text in group] for group in responses.texts])
        answer_BGT = torch.zeros_like(responses.mask_BGT)
        for b, group in enumerate(found):
            for g, span in enumerate(group):
                _mark(answer_BGT[b, g], responses.spans[b][g], span)
        reward_BG = self.accuracy * correct_BG + self.format * format_BG
        return Grades(reward_BG.float(), correct_BG, format_BG, answers, answer_BGT)


def _mark(mask_T: torch.Tensor, spans: tuple[Span, ...], wanted: Span | None) -> None:
    if wanted is not None:
        mask_T[: len(spans)] = torch.tensor(tokens_meeting(spans, wanted), dtype=torch.bool)
