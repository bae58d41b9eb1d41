"""Orders of the data, against queues that are really drawn from."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import islice

import pytest

from mmcredit.data.datamodule import DataModule
from mmcredit.data.sampling import BalancedNoReplacement, PassRate, Pool, Sequential, Shuffle, StepBatches
from mmcredit.data.source import Info, info_of, pass_rate
from mmcredit.data.templates import Template
from mmcredit.data.world.source import World
from mmcredit.functional import stable_rng
from mmcredit.types import Sample, UserError

BALANCED = BalancedNoReplacement()


class Labelled:
    """A source of families and pass rates, whose pictures must not be opened."""

    def __init__(self, families: str, rates: dict[int, float] | None = None) -> None:
        self.families, self.rates = families, rates or {}

    def __len__(self) -> int:
        return len(self.families)

    def __getitem__(self, index: int) -> Sample:
        raise AssertionError("a sample was decoded")

    def info(self, index: int) -> Info:
        return Info(self.families[index], self.rates.get(index))


def pool(families: str) -> Pool:
    return Pool(Labelled(families))


def drawn(order, of: Pool, size: int, count: int, seed: int = 0, start: int = 0, rank: int = 0, world: int = 1):
    return list(islice(StepBatches(order, of, size, seed, start, rank, world), count))


def test_shuffle_is_the_order_of_earlier_versions() -> None:
    """Checkpoints go on where they were: the stream as it was first written."""

    def first_version(size: int, batch: int, seed: int):
        step, known, order = 0, -1, list[int]()
        while True:
            epoch, place = divmod(step, size // batch)
            if epoch != known:
                order, known = stable_rng(seed, epoch, "data order").sample(range(size), size), epoch
            yield order[place * batch : (place + 1) * batch]
            step += 1

    for size, batch in ((10, 3), (64, 16), (5, 5), (7, 1)):
        assert drawn(Shuffle(), pool("a" * size), batch, 40, 3) == list(islice(first_version(size, batch, 3), 40))
    assert Shuffle().batch(0, pool("a" * 8), 4, 0) == [3, 4, 2, 0], "written down from the first version"


def test_sequential_leaves_nothing_out() -> None:
    assert drawn(Sequential(), pool("abcde"), 2, 5) == [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]


@pytest.mark.parametrize("families", ["aaaabbbbbbbccccccccccccc", "bacbabca", "ab" * 7, "aaaa", "caab" * 9 + "a"])
@pytest.mark.parametrize("size", [1, 3, 4])
def test_balanced_is_a_strict_round_robin_over_queues_without_replacement(families: str, size: int) -> None:
    names, of = sorted(set(families)), pool(families)
    stream = sum(drawn(BALANCED, of, size, 200, seed=4), [])
    assert [families[i] for i in stream] == [names[d % len(names)] for d in range(len(stream))]
    for name in names:
        members = [i for i, family in enumerate(families) if family == name]
        turns = [i for i in stream if families[i] == name]
        laps = [turns[k : k + len(members)] for k in range(0, len(turns), len(members))]
        assert all(sorted(lap) == members for lap in laps[:-1]), "reshuffled only when exhausted"
        assert len(laps) < 3 or len(members) < 3 or len({tuple(lap) for lap in laps[:-1]}) > 1


def test_an_epoch_is_families_times_the_smallest_family() -> None:
    """3 x 4 draws: the smallest family is met once whole, the others go on where they stopped."""
    families = "a" * 4 + "b" * 10 + "c" * 7
    stream = sum(drawn(BALANCED, pool(families), 3, 20), [])
    epochs = [stream[k : k + 12] for k in range(0, 48, 12)]
    for epoch in epochs:
        assert Counter(families[i] for i in epoch) == {"a": 4, "b": 4, "c": 4}
        assert sorted(i for i in epoch if families[i] == "a") == [0, 1, 2, 3]
    first, second = ({i for i in epoch if families[i] == "b"} for epoch in epochs[:2])
    assert not first & second


@pytest.mark.parametrize("size", [2, 5, 8, 12])
def test_no_balanced_batch_has_a_sample_twice(size: int) -> None:
    """Families of at least three times a batch's share of them."""
    of = pool("a" * 12 + "b" * 13 + "c" * 31)
    for seed in range(5):
        for batch in drawn(BALANCED, of, size, 200, seed):
            assert len(set(batch)) == size


@pytest.mark.parametrize("order", [Shuffle(), Sequential(), BALANCED], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("start", [1, 3, 4, 5, 8, 11])
def test_a_batch_depends_on_seed_and_number_alone(order, start: int) -> None:
    """Four batches an epoch: 4 and 8 are borders."""
    of = pool("ab" * 8)
    whole = drawn(order, of, 4, start + 6, seed=2)
    random.seed(start)
    assert drawn(order, of, 4, 6, seed=2, start=start) == whole[start:]
    assert order.batch(start, pool("ab" * 8), 4, 2) == whole[start]
    if not isinstance(order, Sequential):
        assert drawn(order, of, 4, start + 6, seed=3) != whole


@pytest.mark.parametrize("order", [Shuffle(), Sequential(), BALANCED], ids=lambda o: type(o).__name__)
@pytest.mark.parametrize("world", [2, 4])
def test_ranks_share_every_batch_evenly(order, world: int) -> None:
    of = pool("abc" * 7)
    shares = [drawn(order, of, 8, 15, rank=rank, world=world) for rank in range(world)]
    for n, batch in enumerate(drawn(order, of, 8, 15)):
        assert {len(share[n]) for share in shares} == {8 // world}
        assert sorted(sum((share[n] for share in shares), [])) == sorted(batch)


def test_a_batch_beyond_a_balanced_epoch_is_refused() -> None:
    with pytest.raises(UserError, match=r"batch_size=7 exceeds an epoch .*3 families x 2 .*\('c'\); use .*=6 or less"):
        BALANCED.check(pool("aaabbbcc"), 7)
    BALANCED.check(pool("aaabbbcc"), 6)


@pytest.mark.parametrize(
    ("value", "rate"),
    [("0.25", 0.25), (1, 1.0), (0, 0.0), *((mark, None) for mark in (None, "", "nan", -1, 62.5, "x"))],
)
def test_pass_rate_of_a_label(value: object, rate: float | None) -> None:
    assert pass_rate(value) == rate


@pytest.mark.parametrize(("unlabelled", "kept"), [("keep", [1, 2, 3, 5]), ("drop", [1, 2, 3])])
def test_difficulty_admits_both_bounds(unlabelled: str, kept: list[int]) -> None:
    source = Labelled("a" * 6, {0: 0.0, 1: 0.125, 2: 0.5, 3: 0.875, 4: 1.0})
    assert list(Pool(source, PassRate(0.125, 0.875, unlabelled)).indices) == kept
    assert sorted(Shuffle().batch(0, Pool(source, PassRate(0.125, 0.875, unlabelled)), len(kept), 0)) == kept


@pytest.mark.parametrize("options", [{"low": 0.6, "high": 0.5}, {"high": 1.5}, {"unlabelled": "perhaps"}])
def test_difficulty_out_of_range(options: dict) -> None:
    with pytest.raises(UserError, match=r"data.difficulty: low=.* keep or drop"):
        PassRate(**options)


def test_a_source_without_info_is_asked_for_its_samples() -> None:
    samples = [Sample("a", (), "q", "a", "counting", meta={"pass_rate": "0.5"}), Sample("b", (), "q", "a")]
    assert [info_of(samples, i) for i in range(2)] == [Info("counting", 0.5), Info("", None)]
    assert Pool(samples).families == {"": [1], "counting": [0]}


def test_the_world_tells_families_without_pictures() -> None:
    world = World("train", 12)
    assert [info_of(world, i).family for i in range(12)] == [world[i].family for i in range(12)]


def test_what_difficulty_leaves_must_fill_a_batch() -> None:
    source = Labelled("a" * 6, {i: i / 5 for i in range(6)})

    def made(size: int, difficulty: PassRate) -> DataModule:
        return DataModule(source, {}, Template("", ".*"), size, 1, 0, Shuffle(), difficulty)

    assert len(made(2, PassRate(0.3, 0.7)).pool) == 2
    with pytest.raises(
        UserError, match=r"exceeds the 2 training samples that data.difficulty admits; use .*=2 or less"
    ):
        made(3, PassRate(0.3, 0.7))
    with pytest.raises(UserError, match="none of the 6 training samples is admitted"):
        made(1, PassRate(0.45, 0.55))


def test_shares_of_a_batch_follow_from_its_size() -> None:
    of = pool("a" * 9 + "b" * 9)
    for batch in drawn(BALANCED, of, 5, 30):
        assert max(Counter("ab"[i >= 9] for i in batch).values()) == math.ceil(5 / 2)
