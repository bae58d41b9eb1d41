"""Vision features of pictures seen before, kept as long as the tower's weights stay."""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from mmcredit.models.features import ImageFeatures
from mmcredit.types import Prompts

Key = tuple[object, ...]


class FeatureCache:
    """Least recently used features leave first; all of them leave when a weight of the tower changes.

    Args:
        tower: the vision tower.
        max_bytes: memory held on the tower's device.
    """

    def __init__(self, tower: nn.Module, max_bytes: int = 2**29) -> None:
        self.max_bytes, self.bytes = max_bytes, 0
        self.watch(tower)
        self._version = -1
        self._kept: OrderedDict[Key, ImageFeatures] = OrderedDict()
        self._fingerprints: WeakTensorKeyDictionary = WeakTensorKeyDictionary()

    def watch(self, tower: nn.Module) -> None:
        """Take these weights for the tower's. A model that is shared out gathers copies of them, which tell nothing."""
        self.weights = list(tower.parameters())

    @property
    def usable(self) -> bool:
        """Features that need no gradient; inference mode would leave tensors that no backward pass can use."""
        trains = torch.is_grad_enabled() and any(p.requires_grad for p in self.weights)
        return not trains and not torch.is_inference_mode_enabled()

    def features_of(
        self, prompts: Prompts, see: Callable[..., list[ImageFeatures | None]]
    ) -> list[ImageFeatures | None]:
        """Features of each prompt, those not kept through ``see(pixels, grids)``; None where it has no picture."""
        if not self.usable:
            return see(prompts.pixels, prompts.grids)
        keys = [
            None if p is None or g is None else self.key(p, g)
            for p, g in zip(prompts.pixels, prompts.grids, strict=True)
        ]
        self._drop_if_weights_changed()
        places = {key: b for b, key in enumerate(keys) if key is not None}
        known = {key: self._get(key) for key in places}
        todo = {key: b for key, b in places.items() if known[key] is None}
        seen = see([prompts.pixels[b] for b in todo.values()], [prompts.grids[b] for b in todo.values()])
        for key, features in zip(todo, seen, strict=True):
            known[key] = features
            self._put(key, features)
        return [None if key is None else known[key] for key in keys]

    def key(self, pixels: Tensor, grid: Tensor) -> Key:
        """Two checksums of all pixels, their shape, and what decides the arithmetic."""
        if pixels not in self._fingerprints:
            data = pixels.contiguous().view(torch.uint8).cpu().numpy().data
            self._fingerprints[pixels] = (zlib.crc32(data), zlib.adler32(data))
        arithmetic = torch.is_autocast_enabled(self.weights[0].device.type)
        return (*self._fingerprints[pixels], tuple(pixels.shape), tuple(grid.flatten().tolist()), arithmetic)

    def _drop_if_weights_changed(self) -> None:
        version = sum(p._version for p in self.weights)
        if version != self._version:
            self.clear()
            self._version = version

    def _get(self, key: Key) -> ImageFeatures | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def _put(self, key: Key, features: ImageFeatures | None) -> None:
        if features is None or features.bytes > self.max_bytes:
            return
        self._kept[key] = features
        self.bytes += features.bytes
        while self.bytes > self.max_bytes:
            self.bytes -= self._kept.popitem(last=False)[1].bytes

    def clear(self) -> None:
        """Drop everything."""
        self._kept.clear()
        self.bytes = 0
