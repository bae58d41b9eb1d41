"""Samples to token ids and pixels, through the model's own chat template and processor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

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

    @cached_property
    def black(self) -> Tensor:
        """[patch_dim] a black patch as the processor normalises it."""
        return self.processor.black_patch()

    @cached_property
    def special_ids(self) -> Tensor:
        """Ids of the tokens that are no text: ends of turns, placeholders of pictures."""
        return torch.tensor(self.processor.tokenizer.all_special_ids)

    def _one(self, sample: Sample) -> tuple[Tensor, Tensor | None, Tensor | None]:
        text = self._text(sample, sample.question)
        if not sample.images:
            return self.processor.tokenizer(text, return_tensors="pt").input_ids[0], None, None
        out = self.processor(text=[text], images=[list(sample.images)], return_tensors="pt")
        return out.input_ids[0], out.pixel_values, out.image_grid_thw

    def _text(self, sample: Sample, question: str) -> str:
        content = [{"type": "image"} for _ in sample.images]
        content += [{"type": "text", "text": self.template.render(question)}]
        messages = [{"role": "user", "content": content}]
        return self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    def hinted(self, sample: Sample, ids_L: Tensor, hint: str) -> Tensor:
        """The prompt with a line after the question, as if the question had it; what stands up to the last picture,
        placeholders included, is kept.

        Args:
            ids_L: int64, the sample's encoded prompt.

        Raises:
            ValueError: ``ids_L`` is not the prompt that this encoder makes of the sample.
        """
        old, new = (self._after_pictures(sample, q) for q in (sample.question, f"{sample.question}\n{hint}"))
        if ids_L[-len(old) :].tolist() != old:
            raise ValueError(f"the prompt of sample {sample.id!r} was not encoded by this template and tokenizer")
        return torch.cat([ids_L[: -len(old)], torch.tensor(new, dtype=ids_L.dtype)])

    def _after_pictures(self, sample: Sample, question: str) -> list[int]:
        text = self._text(sample, question)
        for _ in sample.images:
            text = text.split(self.processor.image_token, 1)[1]
        return self.processor.tokenizer(text, add_special_tokens=False).input_ids

    def pixels(self, images: Sequence[Image]) -> Tensor:
        """[patches, patch_dim] of pictures alone, for edits made before the processor."""
        text = "".join(self.processor.image_token for _ in images)
        return self.processor(text=[text], images=[list(images)], return_tensors="pt").pixel_values
