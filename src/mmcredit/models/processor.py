"""The processor that belongs to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig

from mmcredit.models.families import family_of
from mmcredit.models.image_only import ImageOnly, ImageOnlyProcessor
from mmcredit.models.tiles import TilesProcessor

__all__ = ["ImageOnlyProcessor", "load_processor"]


def load_processor(path: str | Path, **images: Any) -> ImageOnly | TilesProcessor:
    """The processor saved beside a model; which kind is the model family's choice.

    Args:
        path: directory or hub name.
        images: settings of the image part that differ from the saved ones.

    Raises:
        UserError: the model belongs to no known family.
    """
    return family_of(AutoConfig.from_pretrained(path).model_type).PROCESSOR.load(path, **images)
