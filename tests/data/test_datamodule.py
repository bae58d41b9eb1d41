"""Order of the data: endless, seeded, and continued at any step."""

from __future__ import annotations

import random
from itertools import islice
from types import SimpleNamespace

import pytest

from mmcredit.data import datamodule
from mmcredit.data.datamodule import DataModule
from mmcredit.data.sampling import Pool, Shuffle, StepBatches
from mmcredit.data.templates import Template
from mmcredit.types import Sample, UserError

TEMPLATE = Template("", ".*")


def take(batches: StepBatches, count: int) -> list[list[int]]:
    return list(islice(batches, count))


def stream(size: int, batch: int, seed: int, start: int = 0, rank: int = 0, world: int = 1) -> StepBatches:
    return StepBatches(Shuffle(), Pool(range(size)), batch, seed, start, rank, world)  # type: ignore[arg-type]


def samples(count: int) -> list[Sample]:
    return [Sample(str(i), (), "q", "a") for i in range(count)]


def module(train: int = 10, batch: int = 3, val: dict[str, int] | None = None) -> DataModule:
    sources = {name: samples(size) for name, size in (val or {}).items()}
    made = DataModule(samples(train), sources, TEMPLATE, batch_size=batch, val_batch_size=4, seed=5)
    made.encoder = list  # type: ignore[assignment]  # leaves the samples as they are
    return made


@pytest.mark.parametrize(("size", "batch"), [(10, 3), (12, 4), (5, 5), (3, 1)])
def test_stream_is_endless_and_an_epoch_never_repeats_an_index(size: int, batch: int) -> None:
    per_epoch = size // batch
    served = take(stream(size, batch, seed=1), 50 * per_epoch)
    assert len(served) == 50 * per_epoch
    for epoch in range(50):
        seen = sum(served[epoch * per_epoch : (epoch + 1) * per_epoch], [])
        assert len(set(seen)) == len(seen) == per_epoch * batch
        assert set(seen) <= set(range(size))
    assert set(sum(served, [])) == set(range(size)), "a remainder is left to other epochs"


@pytest.mark.parametrize("start", [1, 2, 3, 4, 6, 7, 9, 30])
def test_start_continues_with_that_batch(start: int) -> None:
    """Three batches an epoch: 3, 6, 9 and 30 are epoch borders."""
    whole = take(stream(10, 3, seed=1), start + 8)
    assert take(stream(10, 3, seed=1, start=start), 8) == whole[start:]


def test_batch_depends_on_seed_and_number_alone() -> None:
    first = take(stream(100, 7, seed=1), 20)
    random.seed(3)
    again = stream(100, 7, seed=1)
    assert take(again, 20) == first
    assert take(again, 20) == first, "iterating twice begins anew"
    assert take(stream(100, 7, seed=2), 20) != first
    assert first[:14] != first[14:] and sorted(sum(first[:14], [])) != sum(first[:14], [])


def test_epochs_have_their_own_order() -> None:
    served = take(stream(40, 40, seed=1), 3)
    assert served[0] != served[1] != served[2] != served[0]


def test_loader_goes_on_after_the_batches_that_were_drawn() -> None:
    data = module()
    whole = take(stream(10, 3, seed=5), 7)
    for step in (0, 3, 5):
        data.trainer = SimpleNamespace(lightning_module=SimpleNamespace(drawn_batches=step))  # type: ignore[assignment]
        served = [[int(s.id) for s in batch] for batch in islice(data.train_dataloader(), 2)]
        assert served == whole[step : step + 2]


@pytest.mark.parametrize("world", [1, 2, 4])
def test_ranks_share_every_batch_and_every_mini_batch(world: int) -> None:
    whole = take(stream(40, 8, seed=1), 12)
    shares = [take(stream(40, 8, 1, 0, rank, world), 12) for rank in range(world)]
    for step, batch in enumerate(whole):
        for start in range(0, 8, 4):  # mini-batches of four prompts
            part = slice(start // world, (start + 4) // world)
            assert sorted(sum((share[step][part] for share in shares), [])) == sorted(batch[start : start + 4])


@pytest.mark.parametrize(("size", "world"), [(10, 2), (9, 2), (1, 3), (12, 3), (17, 4)])
def test_validation_meets_every_sample_once_in_as_many_batches_on_every_rank(
    size: int, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = []
    monkeypatch.setattr(datamodule, "world", lambda: world)
    for rank in range(world):
        monkeypatch.setattr(datamodule, "rank", lambda rank=rank: rank)
        (loader,) = module(val={"a": size}).val_dataloader()
        served.append([[int(s.id) for s in batch] for batch in loader])
    assert len({len(batches) for batches in served}) == 1
    assert sorted(sum(sum(served, []), [])) == list(range(size))


def test_first_prompts_are_those_of_the_first_batch() -> None:
    assert [int(s.id) for s in module().first_prompts(2)] == take(stream(10, 3, seed=5), 1)[0][:2]


def test_validation_sets_are_served_once_in_order_and_empty_ones_left_out() -> None:
    data = module(val={"a": 6, "none": 0, "b": 1})
    served = [[[s.id for s in batch] for batch in loader] for loader in data.val_dataloader()]
    assert list(data.val) == ["a", "b"]
    assert served == [[["0", "1", "2", "3"], ["4", "5"]], [["0"]]]


@pytest.mark.parametrize(
    ("train", "batch", "words"),
    [
        (0, 1, "training data is empty"),
        (2, 3, "data.batch_size=3 exceeds the 2 training samples; use data.batch_size=2 or less"),
        (2, 0, "data.batch_size=0 must be at least 1"),
    ],
)
def test_mistakes_are_named(train: int, batch: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        module(train, batch)


def test_a_batch_may_hold_all_samples() -> None:
    assert sorted(next(iter(stream(3, 3, seed=0)))) == [0, 1, 2]
    assert module(train=3, batch=3).batch_size == 3


def test_other_data_than_the_checkpoints_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"):
        module().load_state_dict(module().state_dict())
        assert not caplog.text
        module(train=9, batch=2).load_state_dict(module().state_dict())
    assert "not those of the checkpoint (samples 10 -> 9, batch_size 3 -> 2)" in caplog.text
