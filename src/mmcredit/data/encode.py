"""Samples to token ids and pixels, through the model's own chat template and processor."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from mmcredit.data.gate import BadRow, Outline
from mmcredit.data.placeholders import split_question
from mmcredit.data.templates import Template
from mmcredit.types import Prompts, Sample

SLACK = 8  # bytes that a chat template may add around a text or a picture


class Encoder:
    """Encodes samples as prompts. Pictures stand where the question's ``<image>`` placeholders say, else before it.

    Args:
        processor: a Hugging Face multimodal processor with a chat template.
        template: the instruction around the question.
    """

    def __init__(self, processor: Any, template: Template) -> None:
        self.processor, self.template = processor, template
        self._frames = dict[int, int]()  # pictures -> bytes of a prompt without its question

    def __call__(self, samples: Sequence[Sample]) -> Prompts:
        """Encode; nothing is padded or truncated.

        Raises:
            BadRow: placeholders that do not fit the sample's pictures.
        """
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

    def length(self, outline: Outline) -> tuple[int, int]:
        """Tokens of the prompt, and how many of them stand for pictures; exactly what encoding gives, by arithmetic.

        Raises:
            BadRow: no prompt can be made: placeholders that do not fit, a control token, an impossible picture.
        """
        self._refuse_control(outline.question)
        pictures = self._picture_tokens(outline)
        text = self._text(outline.question, len(outline.sizes))
        return self._tokens(text) - len(outline.sizes) + pictures, pictures

    def longest(self, outline: Outline) -> int:
        """At least as many tokens as ``length``, much faster: no token of a byte-level vocabulary is shorter than a
        byte, and composing characters (NFC) at most trebles the bytes.

        Raises:
            BadRow: as ``length``.
        """
        count, question = len(outline.sizes), outline.question
        self._refuse_control(question)
        parts = split_question(question, count)
        if count not in self._frames:
            self._frames[count] = len(self._text("", count).encode())
        text = len(question) if question.isascii() else 3 * len(question.encode())
        return self._frames[count] + text + SLACK * len(parts) + self._picture_tokens(outline)

    def _tokens(self, text: str) -> int:
        return len(self.processor.tokenizer(text).input_ids)

    def _picture_tokens(self, outline: Outline) -> int:
        try:
            return sum(self.processor.picture_tokens(*size) for size in outline.sizes)
        except ValueError as error:  # the processor's own limits
            raise BadRow("image_aspect", f"the processor refuses an image of {outline.sizes}: {error}") from None

    def _one(self, sample: Sample) -> tuple[Tensor, Tensor | None, Tensor | None]:
        text = self._text(sample.question, len(sample.images))
        if not sample.images:
            return self.processor.tokenizer(text, return_tensors="pt").input_ids[0], None, None
        out = self.processor(text=[text], images=[list(sample.images)], return_tensors="pt")
        return out.input_ids[0], out.pixel_values, out.image_grid_thw

    def _text(self, question: str, images: int, hint: str | None = None) -> str:
        if (token := self.processor.image_token) in question:
            raise BadRow("control_token", f"the question holds the control token {token}")
        parts = self.template.around(split_question(question, images))
        if hint is not None:
            last = parts.pop() if isinstance(parts[-1], str) else ""
            parts.append(f"{last}\n{hint.replace(token, '')}")
        pictures = [part for part in parts if isinstance(part, int)]
        if pictures != sorted(pictures):
            raise BadRow("placeholder_order", "the question names its images in another order than they are given in")
        content = [{"type": "image"} if isinstance(p, int) else {"type": "text", "text": p} for p in parts]
        messages = [{"role": "user", "content": content}]
        return self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    def _refuse_control(self, question: str) -> None:
        """Such text would become the token itself."""
        if found := next((token for token in self._control if token in question), None):
            raise BadRow("control_token", f"the question holds the control token {found}")

    @cached_property
    def _control(self) -> tuple[str, ...]:
        return (*self.processor.tokenizer.all_special_tokens, self.processor.image_token)

    def hinted(self, sample: Sample, ids_L: Tensor, hint: str) -> Tensor:
        """The prompt with a line after the question, as if the question had it; what stands up to the last picture,
        placeholders included, is kept. ``<image>`` in the hint is text; tokens that stand for pixels are left out.

        Args:
            ids_L: int64, the sample's encoded prompt.

        Raises:
            ValueError: ``ids_L`` is not the prompt that this encoder makes of the sample.
        """
        old, new = (self._after_pictures(sample, line) for line in (None, hint))
        if ids_L[-len(old) :].tolist() != old:
            raise ValueError(f"the prompt of sample {sample.id!r} was not encoded by this template and tokenizer")
        return torch.cat([ids_L[: -len(old)], torch.tensor(new, dtype=ids_L.dtype)])

    def _after_pictures(self, sample: Sample, hint: str | None) -> list[int]:
        text = self._text(sample.question, len(sample.images), hint)
        for _ in sample.images:
            text = text.split(self.processor.image_token, 1)[1]
        return self.processor.tokenizer(text, add_special_tokens=False).input_ids

    def pixels(self, images: Sequence[Image]) -> Tensor:
        """[patches, patch_dim] of pictures alone, for edits made before the processor."""
        text = "".join(self.processor.image_token for _ in images)
        return self.processor(text=[text], images=[list(images)], return_tensors="pt").pixel_values
