"""What every source of samples offers, and what it says of a sample without decoding its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mmcredit.types import Sample


class Source(Protocol):
    """Map-style access to samples. A source that also offers ``info(index) -> Info`` spares decoding its pictures."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...


@dataclass(frozen=True, slots=True)
class Info:
    """What is asked of a sample without its pictures."""

    family: str
    pass_rate: float | None = None  # share of right responses of some model, 0..1; None: not measured
    boxed: bool | None = None  # whether it names an evidence box; None: without a picture, or the source does not say


def info_of(source: Source, index: int) -> Info:
    """The source's own ``info``, or what the whole sample says."""
    if (info := getattr(source, "info", None)) is not None:
        return info(index)
    sample = source[index]
    return described(sample, bool(sample.images))


def described(sample: Sample, pictured: bool) -> Info:
    """What a sample says; ``pictured`` because its pictures may have been left out of it."""
    boxed = sample.named_box is not None if pictured else None
    return Info(sample.family, pass_rate(sample.meta.get("pass_rate")), boxed)


def pass_rate(value: object) -> float | None:
    """A corpus' label as a share; None where it is missing, no number, or a mark outside 0..1 (nan, -1)."""
    try:
        rate = float(str(value))
    except ValueError:
        return None
    return rate if 0 <= rate <= 1 else None
