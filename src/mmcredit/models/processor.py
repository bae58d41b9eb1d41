"""The processor that belongs to a model."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor
from transformers import AutoConfig

from mmcredit.models.image_only import ImageOnly, ImageOnlyProcessor
from mmcredit.models.vlm import family_of

__all__ = ["ImageOnlyProcessor", "black_patch", "load_processor"]


def load_processor(path: str | Path) -> ImageOnly:
    """The processor saved beside a model (directory or hub name); which kind is the model family's choice.

    Raises:
        UserError: the model belongs to no known family.
    """
    return family_of(AutoConfig.from_pretrained(path).model_type).PROCESSOR.load(path)


def black_patch(processor: ImageOnly) -> Tensor:
    """[patch_dim] what a black patch looks like after the processor's normalisation."""
    return processor.black_patch()
