"""Image features as the language model receives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class ImageFeatures:
    """Merged image tokens of one prompt: at the input, and added after the first layers (DeepStack; may be empty)."""

    merged_ND: Tensor
    deepstack: tuple[Tensor, ...] = ()

    @property
    def bytes(self) -> int:
        """Memory of all layers."""
        return sum(layer.nbytes for layer in (self.merged_ND, *self.deepstack))

    def map(self, edit: Callable[[Tensor], Tensor]) -> ImageFeatures:
        """The same edit on all of them."""
        return ImageFeatures(edit(self.merged_ND), tuple(edit(layer) for layer in self.deepstack))

    def detach(self) -> ImageFeatures:
        return self.map(Tensor.detach)
