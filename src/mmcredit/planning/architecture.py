"""A model's shape without its weights, on the meta device."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForImageTextToText, PreTrainedConfig

from mmcredit.models.vlm import VisionLanguageModel, family_of
from mmcredit.types import UserError

KNOWN = Path(__file__).parent / "architectures"


@dataclass(frozen=True)
class Architecture:
    """Sizes of a model; parameters are numbers, not bytes."""

    kind: str
    vision: int
    language: int  # decoder layers
    other: int  # embeddings, head, norms
    layers: int
    hidden: int
    intermediate: int
    vocabulary: int
    cache_per_token: int  # keys and values of a token, numbers
    patch: int  # pixels of a side
    merge: int  # patches of a side that become one token

    @property
    def total(self) -> int:
        return self.vision + self.language + self.other

    @property
    def layer(self) -> int:
        """Parameters of one decoder layer."""
        return self.language // self.layers

    def picture_tokens(self, pixels: int) -> int:
        """Tokens of a picture of so many pixels, aspect ratio aside."""
        return max(pixels // (self.patch * self.merge) ** 2, 1)


def model_config(path: str) -> PreTrainedConfig:
    """The configuration of a folder, of a backbone that is known here, or of the hub.

    Raises:
        UserError: nothing is found under the name.
    """
    known = KNOWN / f"{path.rsplit('/', 1)[-1]}.json"
    if not Path(path).is_dir() and known.is_file():
        fields = json.loads(known.read_text())
        return AutoConfig.for_model(fields.pop("model_type"), **fields)
    try:
        return AutoConfig.from_pretrained(path)
    except (OSError, ValueError) as error:
        names = ", ".join(sorted(file.stem for file in KNOWN.glob("*.json")))
        reason = str(error).splitlines()[0]
        raise UserError(
            f"model.path={path}: no configuration found ({reason}); known without the hub: {names}"
        ) from None


def on_meta(path: str) -> VisionLanguageModel:
    """The model without memory for its weights."""
    config = model_config(path)
    family_of(config.model_type)
    with torch.device("meta"):
        return VisionLanguageModel(AutoModelForImageTextToText.from_config(config, dtype=torch.float32))


def measure(model: VisionLanguageModel) -> Architecture:
    """Its sizes."""
    config: Any = model.hf.config
    text, sight = config.get_text_config(), config.vision_config
    vision = sum(p.numel() for p in model.family.vision_tower(model.hf).parameters())
    total = sum(p.numel() for p in model.parameters())
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    kinds = getattr(text, "layer_types", None) or ["full_attention"] * text.num_hidden_layers
    caching = sum(kind == "full_attention" for kind in kinds)  # others keep a state of fixed size
    patch = sight.patch_size[0] if isinstance(sight.patch_size, list | tuple) else sight.patch_size
    merge = getattr(sight, "spatial_merge_size", None) or round(1 / config.downsample_ratio)
    return Architecture(
        kind=config.model_type, vision=vision, language=model.language_parameters,
        other=total - vision - model.language_parameters, layers=text.num_hidden_layers, hidden=text.hidden_size,
        intermediate=text.intermediate_size, vocabulary=model.vocabulary,
        cache_per_token=2 * caching * text.num_key_value_heads * head, patch=patch, merge=merge,
    )  # fmt: skip
