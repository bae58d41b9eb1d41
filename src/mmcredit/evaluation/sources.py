"""Sources made of sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mmcredit.data.datamodule import Source
from mmcredit.types import Sample


class Together:
    """Several sources one after another. ``meta["split"]`` says which one a sample is of, its id begins with that, and
    ``meta["index"]`` is the id there.

    Args:
        parts: name -> source.
    """

    def __init__(self, parts: Mapping[str, Source]) -> None:
        self.parts = dict(parts)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts.values())

    def __getitem__(self, index: int) -> Sample:
        for name, part in self.parts.items():
            if index < len(part):
                sample = part[index]
                return replace(
                    sample, id=f"{name}/{sample.id}", meta={"index": sample.id, **sample.meta, "split": name}
                )
            index -= len(part)
        raise IndexError(index)
