"""Low-rank adapters (LoRA, https://arxiv.org/abs/2106.09685) by peft, inside the Hugging Face model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from mmcredit.functional import stable_seed
from mmcredit.models.lockstep import Found
from mmcredit.models.published import as_published, save_published
from mmcredit.models.shard import whole_weights
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import UserError

NAME = "default"  # peft's name of an only adapter
PREFIX, FILE = "base_model.model.", "adapter_model.safetensors"  # peft's format


def add_adapters(
    policy: VisionLanguageModel, r: int, alpha: int, targets: Sequence[str] | None = None, vision: bool = False
) -> None:
    """Arguments and errors as of ``trainable.lora``. An adapter begins as 0: the model says what it said before."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise UserError("model/train=lora needs peft: pip install 'mmcredit[lora]'") from None
    if r < 1 or alpha < 1:
        raise UserError(f"model.train.r={r} and model.train.alpha={alpha} must be at least 1")
    known = linear_maps(policy, vision)
    ends = {name.rpartition(".")[2] for name in known}
    if unknown := set(targets or ()) - ends:
        raise UserError(f"model.train.targets: no {unknown.pop()!r} in the model; it has {', '.join(sorted(ends))}")
    chosen = [name for name in known if targets is None or name.rpartition(".")[2] in targets]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stable_seed("adapters", r))  # the same on all ranks
        config = LoraConfig(r=r, lora_alpha=alpha, lora_dropout=0.0, target_modules=chosen)
        inject_adapter_in_model(config, policy.hf)  # and freezes all else


def linear_maps(policy: VisionLanguageModel, vision: bool) -> list[str]:
    """Full names of the linear maps in the decoder layers, and in the vision tower's."""
    blocks = [policy.family.decoder_layers(policy.hf), *([policy.family.vision_blocks(policy.hf)] if vision else [])]
    inside = {id(m) for block in blocks for m in block.modules() if isinstance(m, nn.Linear)}
    return [name for name, module in policy.hf.named_modules() if id(module) in inside]


def adapters(hf: nn.Module) -> dict[str, Any]:
    """peft's layers by full name; empty for a model without adapters."""
    return {name: module for name, module in hf.named_modules() if hasattr(module, "lora_A")}


class WithoutAdapters(VisionLanguageModel):
    """The model as it was before its adapters: the same weights, the adapters' outputs multiplied by 0.

    Args:
        adapted: the model; it computes for this one.
    """

    def __init__(self, adapted: VisionLanguageModel) -> None:
        self._owners = (adapted,)  # in a tuple: no part of this module
        super().__init__(adapted.hf)
        self._layers = tuple(adapters(adapted.hf).values())
        self.feature_cache.max_bytes = adapted.feature_cache.max_bytes
        if not any(p.requires_grad for p in adapted.feature_cache.weights):
            self.feature_cache = adapted.feature_cache  # the towers are the same

    @property
    def owner(self) -> VisionLanguageModel:
        return self._owners[0]

    @property
    def device(self) -> torch.device:
        return self.owner.device

    @property
    def dtype(self) -> torch.dtype:
        return self.owner.dtype

    def _pass(self, sees: bool, work: Callable[[], Found]) -> Found:
        with self._off():
            return self.owner._pass(sees, work)

    @contextmanager
    def _off(self) -> Iterator[None]:
        scales = [layer.scaling[NAME] for layer in self._layers]
        for layer in self._layers:
            layer.scaling[NAME] = 0.0
        try:
            yield
        finally:
            for layer, scale in zip(self._layers, scales, strict=True):
                layer.scaling[NAME] = scale


def merged(weights: Iterable[tuple[str, Tensor]], hf: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Weights of the plain model that says what the adapted one does, one at a time: W + alpha / r B A, computed in
    float32. A layer's own weight must come before its adapter, A before B, as in a ``state_dict``."""
    layers, held = adapters(hf), dict[str, Tensor]()
    for name, value in weights:
        layer, _, part = name.rpartition(".lora_")
        if layer:
            held[part[0]] = value
        elif name.removesuffix(".base_layer.weight") in layers:
            held = {"W": value}
        else:
            yield name.replace(".base_layer.", "."), value
        if len(held) == 3:
            delta = layers[layer].scaling[NAME] * (held["B"].float() @ held["A"].float())
            yield f"{layer}.weight", (held["W"].float() + delta).to(held["W"].dtype)
            held = {}


def plain_weights(policy: VisionLanguageModel, tied_once: bool = True) -> Iterator[tuple[str, Tensor]]:
    """Weights under the names of the checkpoint, whole and merged, one at a time; as ``shard.whole_weights``."""
    return as_published(merged(whole_weights(policy.hf, tied_once), policy.hf), policy.family)


def save_merged(policy: VisionLanguageModel, weights: Mapping[str, Tensor], folder: Path) -> None:
    """The merged model in Hugging Face format, and the adapters alone, for peft, in ``adapter/``."""
    from peft import get_peft_model_state_dict

    hf = policy.hf
    alone = get_peft_model_state_dict(hf, dict(weights))
    (folder / "adapter").mkdir(parents=True)
    save_file({PREFIX + name: value.contiguous() for name, value in alone.items()}, folder / "adapter" / FILE)
    hf.peft_config[NAME].save_pretrained(folder / "adapter")
    with torch.device("meta"):
        plain = type(hf)(hf.config)
    plain.generation_config = hf.generation_config
    save_published(plain, dict(merged(weights.items(), hf)), policy.family, folder)
