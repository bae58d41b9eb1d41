"""Pictures that a model takes as square tiles, written as patches and grids like those of every other family.

InternVL resizes a picture to rows and columns of tiles and adds a thumbnail of the whole; a picture that fits one tile
has no thumbnail. Its grid is (tiles, patch rows, patch columns of one tile); its pixels are the patches tile by tile,
merge block by merge block. So [patches, patch_dim] and (t, h, w) keep their meaning, and what edits patches works.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BatchFeature,
    GotOcr2ImageProcessorPil,
    InternVLProcessor,
    PreTrainedTokenizerBase,
)

from mmcredit.models.image_only import save_as

VIDEO_SHARES = ("size", "image_mean", "image_std")


def to_patches(tiles: Tensor, patch: int, merge: int) -> Tensor:
    """[tiles, C, H, W] to [patches, C * patch * patch]: merge blocks row by row, the patches of each row by row."""
    tiles = tiles.unflatten(3, (-1, merge, patch)).unflatten(2, (-1, merge, patch))
    return tiles.permute(0, 2, 5, 3, 6, 1, 4, 7).flatten(0, 4).flatten(1)


def to_tiles(patches: Tensor, rows: int, columns: int, patch: int, merge: int) -> Tensor:
    """[patches, C * patch * patch] to [tiles, C, H, W], ``rows`` x ``columns`` patches each: undoes ``to_patches``."""
    blocks = patches.view(-1, rows // merge, columns // merge, merge, merge, patches.shape[1] // patch**2, patch, patch)
    return blocks.permute(0, 5, 1, 3, 6, 2, 4, 7).reshape(len(blocks), -1, rows * patch, columns * patch)


class TilesProcessor(InternVLProcessor):
    """InternVL's processor for text and images, giving patches and grids.

    Args:
        patch: side of a patch in pixels.
    """

    def __init__(
        self,
        image_processor: GotOcr2ImageProcessorPil | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        image_seq_length: int = 256,
        chat_template: str | None = None,
        patch: int = 14,
        **kwargs: object,
    ) -> None:
        super().__init__(image_processor, tokenizer, None, image_seq_length, chat_template=chat_template)
        self.patch = patch

    @classmethod
    def load(cls, path: str | Path, **images: Any) -> TilesProcessor:
        """The processor saved beside a model (directory or hub name), whose config knows the patches; ``images``:
        settings of the image part, e.g. ``max_patches=1`` for one tile a picture."""
        config: Any = AutoConfig.from_pretrained(path)
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
        image_processor = GotOcr2ImageProcessorPil.from_pretrained(path, **images)
        patch = config.vision_config.patch_size[0]
        return cls(image_processor, tokenizer, config.image_seq_length, tokenizer.chat_template, patch)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches of a tile."""
        size = self.image_processor.size
        return size["height"] // self.patch, size["width"] // self.patch

    @property
    def merge(self) -> int:
        """Patches are merged to tokens ``merge`` by ``merge``."""
        return math.isqrt(math.prod(self.grid) // self.image_seq_length)

    def picture_tokens(self, width: int, height: int) -> int:
        """Tokens that the placeholder of a picture of so many pixels becomes, its start and end included."""
        return self._get_num_multimodal_tokens(image_sizes=[(height, width)]).num_image_tokens[0]

    def black_patch(self) -> Tensor:
        """[patch_dim] what a black patch looks like after normalisation."""
        black = self.image_processor(images=[Image.new("RGB", (64, 64))], return_tensors="pt").pixel_values
        return to_patches(black, self.patch, self.merge)[0]

    def __call__(self, images: Any = None, text: Any = None, videos: Any = None, **kwargs: Any) -> BatchFeature:
        """InternVL's output, ``pixel_values`` as [patches, patch_dim], and ``image_grid_thw``, [images, 3]."""
        out = super().__call__(images=images, text=text, videos=videos, **kwargs | {"return_tensors": "pt"})
        if images is not None:
            # the tokens of one picture stand together, between its start and end tokens
            kind, runs = torch.unique_consecutive(out.input_ids.flatten() == self.image_token_id, return_counts=True)
            tiles = runs[kind] // self.image_seq_length
            out["image_grid_thw"] = torch.tensor([[t, *self.grid] for t in tiles.tolist()])
            out["pixel_values"] = to_patches(out.pixel_values, self.patch, self.merge)
        return out

    def save_pretrained(self, save_directory: Any, push_to_hub: bool = False, **kwargs: Any) -> list[str]:
        """Save under the name of the full processor, with a video part: ``AutoProcessor`` loads it with torchvision."""
        files = super().save_pretrained(save_directory, push_to_hub, **kwargs)
        save_as(Path(save_directory), InternVLProcessor, "InternVLVideoProcessor", VIDEO_SHARES, drop="patch")
        return files
