"""Samples to token ids and pixels, through the model's own chat template and processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mmcredit.data.templates import Template
from mmcredit.types import Prompts, Sample


class Encoder:
    """Encodes samples as prompts.

    Args:
        processor: a Hugging Face multimodal processor with a chat template.
        template: the instruction around the question.
    """

    def __init__(self, processor: Any, template: Template) -> None:
        self.processor, self.template = processor, template

    def __call__(self, samples: Sequence[Sample]) -> Prompts:
        """Encode; nothing is padded or truncated."""
        encoded = [self._one(sample) for sample in samples]
        ids, pixels, grids = zip(*encoded, strict=True) if encoded else ((), (), ())
        return Prompts(tuple(samples), ids, pixels, grids)

    def _one(self, sample: Sample) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        content = [{"type": "image"} for _ in sample.images]
        content += [{"type": "text", "text": self.template.render(sample.question)}]
        messages = [{"role": "user", "content": content}]
        text = self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        if not sample.images:
            return self.processor.tokenizer(text, return_tensors="pt").input_ids[0], None, None
        out = self.processor(text=[text], images=[list(sample.images)], return_tensors="pt")
        return out.input_ids[0], out.pixel_values, out.image_grid_thw
