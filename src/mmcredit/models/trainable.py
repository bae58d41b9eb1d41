"""Which weights of a policy are trained; each takes one with all of them trained. Parts of ``load_policy``."""

from __future__ import annotations

from collections.abc import Sequence

from mmcredit.models.lora import add_adapters
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import UserError


def everything(policy: VisionLanguageModel) -> None:
    """All of them."""


def language(policy: VisionLanguageModel) -> None:
    """All but the vision tower's."""
    policy.family.vision_tower(policy.hf).requires_grad_(False)


def last_layers(policy: VisionLanguageModel, count: int) -> None:
    """Those of the last decoder layers.

    Raises:
        UserError: more layers than there are, or none.
    """
    layers = policy.family.decoder_layers(policy.hf)
    if not 0 < count <= len(layers):
        raise UserError(f"model.train.count={count}: the model has {len(layers)} layers")
    policy.requires_grad_(False)
    layers[-count:].requires_grad_(True)


def lora(
    policy: VisionLanguageModel,
    r: int = 16,
    alpha: int = 32,
    targets: Sequence[str] | None = None,
    vision: bool = False,
) -> None:
    """Adapters of low rank beside the linear maps of the decoder layers (LoRA); the reference is the model without
    them, at no further memory.

    Args:
        r: rank of an adapter.
        alpha: an adapter's output is multiplied by alpha / r.
        targets: last names of the linear maps, e.g. ``q_proj``; None for all.
        vision: the vision tower's layers get adapters, too.

    Raises:
        UserError: no such map, a rank or alpha below 1, or peft is not installed.
    """
    add_adapters(policy, r, alpha, targets, vision)
