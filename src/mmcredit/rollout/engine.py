"""What samples: the protocol behind ``rollout=hf``, ``vllm`` and ``vllm_server``."""

from __future__ import annotations

from typing import Protocol

from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.sampling import Sampled
from mmcredit.types import Prompts


class Engine(Protocol):
    """Samples responses; the draws of (question, step, g) depend on their names alone."""

    seconds: dict[str, float]  # so far, by part

    def generate(self, policy: VisionLanguageModel, prompts: Prompts, step: int, shares: int = 1) -> Sampled:
        """Responses; ``prompts`` holds so many versions of each, one after another, with G / shares each."""
