"""Image-only processors: the Qwen-VL processors without a video part, so that no torchvision is needed."""

from __future__ import annotations

from pathlib import Path

from PIL import Image
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen2VLImageProcessorPil, Qwen3VLProcessor


class ImageOnlyProcessor(Qwen3VLProcessor):
    """Qwen3-VL's processor for text and images. Subclassing drops the video processor from the attributes."""

    def __init__(
        self,
        image_processor: Qwen2VLImageProcessorPil | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        chat_template: str | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(image_processor, tokenizer, None, chat_template=chat_template)


def load_processor(path: str | Path) -> ImageOnlyProcessor:
    """The processor saved beside a model (directory or hub name)."""
    tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
    images = Qwen2VLImageProcessorPil.from_pretrained(path)
    return ImageOnlyProcessor(images, tokenizer, chat_template=tokenizer.chat_template)


def black_patch(processor: ImageOnlyProcessor) -> Tensor:
    """[patch_dim] what a black patch looks like after the processor's normalisation."""
    side = processor.image_processor.patch_size * processor.image_processor.merge_size
    black = Image.new("RGB", (4 * side, 4 * side))
    return processor.image_processor(images=[black], return_tensors="pt").pixel_values[0]
