"""A model's responses to samples: K a question, each with a seed of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from mmcredit.data.encode import Encoder
from mmcredit.data.gate import BadRow
from mmcredit.data.templates import Template
from mmcredit.evaluation.files import Prediction
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.engine import Engine
from mmcredit.rollout.text import decode_with_spans
from mmcredit.types import Sample, UserError


class Responder:
    """Encodes, samples, decodes.

    Args:
        policy: the model, set up (``load.set_up``).
        processor: that belongs to it.
        engine: samples K responses a question.
        template: around the question.
    """

    def __init__(self, policy: VisionLanguageModel, processor: Any, engine: Engine, template: Template) -> None:
        self.policy, self.engine, self.encoder = policy, engine, Encoder(processor, template)

    def __call__(self, samples: Sequence[Sample], step: int = 0) -> list[Prediction]:
        """The responses, question after question.

        Args:
            step: another step, other draws.

        Raises:
            UserError: a question that cannot be encoded.
        """
        try:
            prompts = self.encoder(samples)
        except BadRow as problem:
            raise UserError(f"one of the questions {', '.join(s.id for s in samples)[:300]}: {problem}") from None
        sampled = self.engine.generate(self.policy, prompts, step).ids
        return [
            self._prediction(sample, k, ids)
            for sample, group in zip(samples, sampled, strict=True)
            for k, ids in enumerate(group)
        ]

    def _prediction(self, sample: Sample, k: int, ids: Tensor) -> Prediction:
        ends = self.policy.end_ids.tolist()
        text, _ = decode_with_spans(self.encoder.processor.tokenizer, ids.tolist(), ends)
        return Prediction(sample.id, k, text, len(ids), int(ids[-1]) in ends)
