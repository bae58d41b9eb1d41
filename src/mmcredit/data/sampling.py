"""Which sample comes when. Batch n is a pure function of (samples, seed, n): a run resumes at any batch, epoch borders
included, and every rank takes its share of the same batch without a word to the others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from typing import Protocol

from torch.utils.data import Sampler

from mmcredit.data.source import Info, Source, info_of
from mmcredit.functional import stable_rng
from mmcredit.types import UserError

UNLABELLED = ("keep", "drop")


@dataclass(frozen=True)
class PassRate:
    """Admits samples of medium difficulty.

    Args:
        low, high: bounds of the pass rate, both allowed.
        unlabelled: ``keep`` or ``drop`` samples without a pass rate.

    Raises:
        UserError: bounds outside 0..1 or out of order, another ``unlabelled``.
    """

    low: float = 0.0
    high: float = 1.0
    unlabelled: str = "keep"

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1 or self.unlabelled not in UNLABELLED:
            raise UserError(
                f"data.difficulty: low={self.low} and high={self.high} need 0 <= low <= high <= 1, and "
                f"unlabelled={self.unlabelled!r} must be keep or drop"
            )

    def admits(self, info: Info) -> bool:
        """Whether the sample may be drawn."""
        return self.unlabelled == "keep" if info.pass_rate is None else self.low <= info.pass_rate <= self.high


class Pool:
    """The samples of a source that may be drawn: those that the difficulty admits, all without one."""

    def __init__(self, source: Source, difficulty: PassRate | None = None) -> None:
        self.source = source
        self.indices: Sequence[int] = range(len(source))
        if difficulty is not None:
            self.indices = [i for i in self.indices if difficulty.admits(info_of(source, i))]

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def families(self) -> dict[str, list[int]]:
        """Indices of each family, sorted by its name."""
        found: dict[str, list[int]] = {}
        for i in self.indices:
            found.setdefault(info_of(self.source, i).family, []).append(i)
        return dict(sorted(found.items()))


class Order(Protocol):
    """One of the laws below."""

    def check(self, pool: Pool, size: int) -> None:
        """Raise ``UserError`` where batches of ``size`` cannot be drawn from the pool."""

    def batch(self, n: int, pool: Pool, size: int, seed: int) -> list[int]:
        """Source indices of batch ``n``, ``size`` different ones."""


class Shuffle:
    """Every epoch is a new permutation; a remainder smaller than a batch is left to other epochs."""

    def check(self, pool: Pool, size: int) -> None:
        pass

    def batch(self, n: int, pool: Pool, size: int, seed: int) -> list[int]:
        epoch, place = divmod(n, len(pool) // size)
        order = _shuffled(len(pool), seed, epoch, "data order")
        return [pool.indices[i] for i in order[place * size : (place + 1) * size]]


class Sequential:
    """The order of the source, again and again; a batch may span the end and the beginning."""

    def check(self, pool: Pool, size: int) -> None:
        pass

    def batch(self, n: int, pool: Pool, size: int, seed: int) -> list[int]:
        return [pool.indices[i % len(pool)] for i in range(n * size, (n + 1) * size)]


class BalancedNoReplacement:
    """Evidence-RL's sampler: families take strict turns, in the order of their names.

    Each family is a shuffled queue, that is shuffled anew only when it is exhausted; an epoch (families x smallest
    family) ends when the smallest is, while bigger queues go on. Draw d is the (d // families)-th of its family, so
    its place is known without drawing the others. Where a queue starts again inside a batch, its new beginning avoids
    its old end: no batch has a sample twice, if every family is three times a batch's share of it.
    """

    def check(self, pool: Pool, size: int) -> None:
        families = pool.families
        name = min(families, key=lambda family: len(families[family]))
        epoch = len(families) * len(families[name])
        if size > epoch:
            raise UserError(
                f"data.batch_size={size} exceeds an epoch of the balanced sampler: {len(families)} families x "
                f"{len(families[name])} samples of the smallest ({name!r}); use data.batch_size={epoch} or less, or "
                "data/sampler=shuffle"
            )

    def batch(self, n: int, pool: Pool, size: int, seed: int) -> list[int]:
        names, share = list(pool.families), math.ceil(size / len(pool.families))
        found = []
        for draw in range(n * size, (n + 1) * size):
            turn, which = divmod(draw, len(names))
            members = pool.families[names[which]]
            lap, place = divmod(turn, len(members))
            found.append(members[_queue(len(members), seed, names[which], lap, share - 1)[place]])
        return found


@lru_cache(maxsize=16)
def _shuffled(size: int, *key: object) -> list[int]:
    return stable_rng(*key).sample(range(size), size)


@lru_cache(maxsize=32)
def _queue(size: int, seed: int, family: str, lap: int, apart: int) -> list[int]:
    """A lap's order, whose first ``apart`` places hold none of the last ``apart`` of the lap before."""
    order = _shuffled(size, seed, family, lap, "balanced order")
    if not lap or not apart or size < 3 * apart:
        return order
    before = set(_shuffled(size, seed, family, lap - 1, "balanced order")[-apart:])
    head = [i for i in order if i not in before][:apart]  # within the first 2 x apart: the end stays as it is
    return head + [i for i in order if i not in head]


class StepBatches(Sampler[list[int]]):
    """The endless stream of batches from ``start``. Of ``world`` ranks, each gets every world-th prompt, so that any
    run of prompts is shared out evenly."""

    def __init__(
        self, order: Order, pool: Pool, size: int, seed: int, start: int = 0, rank: int = 0, world: int = 1
    ) -> None:
        self.order, self.pool, self.size, self.seed = order, pool, size, seed
        self.start, self.rank, self.world = start, rank, world

    def __iter__(self) -> Iterator[list[int]]:
        for n in count(self.start):
            yield self.order.batch(n, self.pool, self.size, self.seed)[self.rank :: self.world]
