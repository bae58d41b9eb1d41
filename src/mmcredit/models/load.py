"""Loading models, choosing what is trained, and exporting."""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText

from mmcredit.checkpoints import replace_folder
from mmcredit.functional import rank
from mmcredit.models import flex
from mmcredit.models.lora import WithoutAdapters, adapters, save_merged
from mmcredit.models.published import save_published
from mmcredit.models.shard import whole_weights
from mmcredit.models.trainable import everything
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import UserError

ATTENTIONS = ("auto", "sdpa", "flex")
SMALL_MODEL = 50_000_000  # parameters; below, a second CPU thread costs more than it brings


def load_policy(
    path: str,
    dtype: str = "float32",
    train: Callable[[VisionLanguageModel], None] = everything,
    gradient_checkpointing: bool = False,
    feature_cache: int = 512,
    attention: str = "auto",
    empty: bool = False,
) -> VisionLanguageModel:
    """A policy from a directory or hub name.

    Args:
        path: where the model is.
        dtype: weights' type, e.g. ``float32`` or ``bfloat16``.
        train: what is trained, one of ``trainable``.
        gradient_checkpointing: keep one layer's activations at a time and compute the others again in backward.
        feature_cache: MiB of vision features that each model of a run keeps for pictures that come again; 0 keeps none.
        attention: of the language model: ``sdpa``, with dense masks; ``flex``, with block masks on GPUs, if it agrees
            with SDPA there; ``auto``, the latter where there is a GPU.
        empty: without memory for weights and buffers (on the meta device); else the same in all.

    Raises:
        UserError: unknown dtype or attention, a checkpoint that lacks weights, or model of an unknown family.
    """
    torch_dtype = getattr(torch, dtype, None)
    if not isinstance(torch_dtype, torch.dtype):
        raise UserError(f"model.policy.dtype={dtype!r} does not exist; use float32, bfloat16 or float16")
    if attention not in ATTENTIONS:
        raise UserError(f"model.policy.attention={attention!r} does not exist; use {', '.join(ATTENTIONS)}")
    place = "meta" if empty else None
    load: Any = AutoModelForImageTextToText.from_pretrained
    hf, found = load(path, dtype=torch_dtype, device_map=place, output_loading_info=True)
    if lacking := sorted(found["missing_keys"]):  # these would begin at random
        raise UserError(f"model.path={path} lacks {len(lacking)} weights of its model, e.g. {lacking[0]}")
    policy = VisionLanguageModel(hf)
    policy.feature_cache.max_bytes = feature_cache * 2**20
    if attention == "flex" or (attention == "auto" and torch.cuda.is_available()):
        flex.choose(policy.hf, flex.NAME)
    if gradient_checkpointing:
        checkpoint_activations(policy.hf)
    train(policy)
    policy.feature_cache.watch(policy.family.vision_tower(policy.hf))
    return policy


def set_up(policy: VisionLanguageModel, processor: Any, device: torch.device | None = None) -> VisionLanguageModel:
    """The policy, ready for use: it knows which ids have a token, and torch how many threads it is worth.

    Args:
        processor: that belongs to it.
        device: where it shall compute; None leaves that to a trainer.
    """
    policy.known_ids = min(len(processor.tokenizer), policy.vocabulary)
    choose_threads(policy)
    return policy if device is None else policy.to(device)


def choose_threads(policy: VisionLanguageModel) -> None:
    """One thread for small models on CPU, unless OMP_NUM_THREADS says otherwise."""
    small = sum(p.numel() for p in policy.parameters()) < SMALL_MODEL
    if small and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def own_device() -> torch.device:
    """This process's GPU if there is one, else the CPU."""
    return torch.device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu")


def checkpoint_activations(hf: Any) -> None:
    """Gradient checkpointing of every layer, under the name that this version of transformers has for it."""
    getattr(hf, "activation_checkpointing_enable", hf.gradient_checkpointing_enable)({"use_reentrant": False})


def reference(policy: VisionLanguageModel) -> VisionLanguageModel:
    """What the policy is before training."""
    return WithoutAdapters(policy) if adapters(policy.hf) else frozen_copy(policy)


def frozen_copy(policy: VisionLanguageModel) -> VisionLanguageModel:
    """A copy that is never trained."""
    copied = VisionLanguageModel(copy.deepcopy(policy.hf)).eval().requires_grad_(False)
    copied.feature_cache.max_bytes = policy.feature_cache.max_bytes
    return copied


def export(policy: VisionLanguageModel, processor: Any, folder: Path) -> None:
    """Save model and processor in Hugging Face format; the folder appears complete or not at all.

    The first rank writes; all must call it, as each may hold a part of the weights.
    """
    weights = {name: weight.cpu() for name, weight in whole_weights(policy.hf) if rank() == 0}
    if rank():
        return
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    if adapters(policy.hf):
        save_merged(policy, weights, partial)
    else:
        save_published(policy.hf, weights, policy.family, partial)
    processor.save_pretrained(partial)
    replace_folder(partial, folder)
