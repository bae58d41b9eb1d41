"""Image-only processors: the Qwen-VL processors without a video part, so that no torchvision is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase, Qwen2VLImageProcessorPil, Qwen3VLProcessor

VIDEO_SHARES = ("patch_size", "temporal_patch_size", "merge_size", "image_mean", "image_std")


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

    def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **kwargs: Any) -> list[str]:
        """Save under the name of the full processor, with a video part: ``AutoProcessor`` loads it with torchvision."""
        files = super().save_pretrained(save_directory, push_to_hub, **kwargs)
        for name in ("processor_config.json", "tokenizer_config.json"):
            path = Path(save_directory) / name
            config = json.loads(path.read_text()) | {"processor_class": Qwen3VLProcessor.__name__}
            if images := config.get("image_processor"):
                shared = {key: images[key] for key in VIDEO_SHARES}
                config["video_processor"] = {"video_processor_type": "Qwen3VLVideoProcessor", **shared}
            path.write_text(json.dumps(config, indent=2) + "\n")
        return files


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
