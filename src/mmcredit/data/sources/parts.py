"""Which rows of one file are for training and which for validation."""

from __future__ import annotations

from collections.abc import Sequence

from mmcredit.data.sources.entries import choose
from mmcredit.functional import stable_seed
from mmcredit.types import UserError

PARTS = ("train", "val", "all")


def check_part(part: str, val_share: float, known: Sequence[str] = PARTS) -> None:
    """Raises ``UserError`` for a part that does not exist, or a share outside 0..1."""
    choose("data part", part, known)
    if not 0 <= val_share <= 1:
        raise UserError(f"data.val_share={val_share} must lie in 0..1")


def part_of(name: str, val_share: float) -> str:
    """``val`` for this share of all names, else ``train``: by a hash, whatever other rows there are."""
    return "val" if stable_seed(name, "split") % 10_000 < val_share * 10_000 else "train"
