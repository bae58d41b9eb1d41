"""Processors for text and images: Hugging Face's own without their video part, so that no torchvision is needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor
from transformers import (
    AutoTokenizer,
    PreTrainedTokenizerBase,
    ProcessorMixin,
    Qwen2_5_VLProcessor,
    Qwen2VLImageProcessorPil,
    Qwen3VLProcessor,
)

VIDEO_SHARES = ("patch_size", "temporal_patch_size", "merge_size", "image_mean", "image_std")


def save_as(folder: Path, full: type[ProcessorMixin], video: str, shares: Sequence[str], drop: str = "") -> None:
    """Rename a saved processor to the full one, give it a video part that shares settings with the image part, and
    take out what the full one does not know."""
    for name in ("processor_config.json", "tokenizer_config.json"):
        path = folder / name
        config = json.loads(path.read_text()) | {"processor_class": full.__name__}
        config.pop(drop, None)
        if images := config.get("image_processor"):
            shared = {key: images[key] for key in shares}
            config["video_processor"] = {"video_processor_type": video, **shared}
        path.write_text(json.dumps(config, indent=2) + "\n")


class ImageOnly(ProcessorMixin):
    """Text and images of the Qwen-VL families. Its ``__init__`` drops the video processor from the attributes.

    Subclasses put it before the full processor and name that one and its video processor.
    """

    full: type[ProcessorMixin]
    video: str

    def __init__(
        self,
        image_processor: Qwen2VLImageProcessorPil | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        chat_template: str | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(image_processor, tokenizer, None, chat_template=chat_template)

    @classmethod
    def load(cls, path: str | Path, **images: Any) -> ImageOnly:
        """The processor saved beside a model (directory or hub name); ``images``: settings of its image part."""
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
        image_processor = Qwen2VLImageProcessorPil.from_pretrained(path, **images)
        return cls(image_processor, tokenizer, chat_template=tokenizer.chat_template)

    @property
    def merge(self) -> int:
        """Patches are merged to tokens ``merge`` by ``merge``."""
        return self.image_processor.merge_size

    def picture_tokens(self, width: int, height: int) -> int:
        """Tokens that the placeholder of a picture of so many pixels becomes.

        Raises:
            ValueError: a picture that the resize refuses.
        """
        return self.image_processor.get_number_of_image_patches(height, width) // self.merge**2

    def black_patch(self) -> Tensor:
        """[patch_dim] what a black patch looks like after normalisation."""
        side = self.image_processor.patch_size * self.image_processor.merge_size
        black = Image.new("RGB", (4 * side, 4 * side))
        return self.image_processor(images=[black], return_tensors="pt").pixel_values[0]

    def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **kwargs: Any) -> list[str]:
        """Save under the name of the full processor, with a video part: ``AutoProcessor`` loads it with torchvision."""
        files = super().save_pretrained(save_directory, push_to_hub, **kwargs)
        save_as(Path(save_directory), self.full, self.video, VIDEO_SHARES)
        return files


class ImageOnlyProcessor(ImageOnly, Qwen3VLProcessor):
    """Qwen3-VL's, which Qwen3.5 uses too."""

    full, video = Qwen3VLProcessor, "Qwen3VLVideoProcessor"


class Qwen25ImageOnlyProcessor(ImageOnly, Qwen2_5_VLProcessor):
    """Qwen2.5-VL's."""

    full, video = Qwen2_5_VLProcessor, "Qwen2VLVideoProcessor"
