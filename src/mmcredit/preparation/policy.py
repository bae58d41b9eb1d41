"""The policy's responses to samples, graded: what training would see."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig

from mmcredit.build import policy_alone, quiet
from mmcredit.data.encode import Encoder
from mmcredit.missing import missing_data, missing_weights
from mmcredit.preparation.files import Row
from mmcredit.rollout.text import collate
from mmcredit.types import Sample, UserError


def check_start(parts: DictConfig) -> None:
    """What comes before a job: libraries are kept quiet.

    Raises:
        UserError: data or weights that ``parts`` name are not there.
    """
    quiet()
    if missing := [*missing_data(parts), *missing_weights(parts)]:
        raise UserError(f"this job cannot start here: {'; '.join(missing)}")


class Responder:
    """Samples and grades; the model is loaded when first asked, on a GPU if there is one.

    Args:
        parts: ``model``, ``template``, ``rollout`` and ``reward`` as in ``mmcredit.fit``.
    """

    def __init__(self, parts: DictConfig) -> None:
        self.parts = parts
        self.engine, self.grade = instantiate(parts.rollout.engine), instantiate(parts.reward)

    @cached_property
    def loaded(self) -> tuple[Any, Any]:
        """Policy and encoder."""
        processor = instantiate(self.parts.model.processor)
        policy = policy_alone(self.parts.model, processor)
        return policy, Encoder(processor, instantiate(self.parts.template))

    def __call__(self, samples: Sequence[Sample]) -> list[Row]:
        """A row a sample: id, responses, and of each whether it is right and well formed."""
        policy, encoder = self.loaded
        prompts = encoder(samples)
        sampled = self.engine.generate(policy, prompts, 0).ids
        responses = collate(encoder.processor.tokenizer, sampled, policy.end_ids.tolist())
        grades = self.grade(prompts, responses)
        columns = zip(samples, responses.texts, grades.correct_BG.tolist(), grades.format_BG.tolist(), strict=True)
        return [
            {"id": sample.id, "responses": list(texts), "correct": correct, "format": kept}
            for sample, texts, correct, kept in columns
        ]
