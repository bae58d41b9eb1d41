"""Ranks with any work do the same passes in the same order (threads in place of ranks)."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from mmcredit.models.lockstep import Lockstep, Pace

WORK = {"see": (0, True), "read": (0, False), "other reads": (1, False)}


@dataclass
class Meeting:
    """Largest wish of all ranks; a rank that never comes is an error, not a hang."""

    ranks: int
    wishes: dict[int, int] = field(default_factory=dict)
    agreed: int = 0

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.ranks, self._decide, timeout=5)

    def _decide(self) -> None:
        self.agreed = max(self.wishes.values())

    def __call__(self, rank: int, wish: int) -> int:
        self.wishes[rank] = wish
        self.barrier.wait()
        agreed = self.agreed
        self.barrier.wait()
        return agreed


class Recorder:
    """A model that writes down its passes."""

    device = torch.device("cpu")

    def __init__(self, index: int, passes: list[tuple[object, ...]]) -> None:
        self.index, self.passes = index, passes
        self.weight = torch.ones((), requires_grad=True)
        self.reset = 0

    def run(self, sees: bool) -> Tensor:
        self.passes.append((self.index, sees, torch.is_grad_enabled()))
        return self.weight * 2.0

    def empty_pass(self, sees: bool) -> Tensor:
        return 0.0 * self.run(sees)

    def reset_iter_state(self) -> None:
        self.reset += 1

    def set_requires_gradient_sync(self, sync: bool) -> None:
        self.passes.append(("sync", sync))


class Rank(Lockstep):
    """A rank of the meeting, with two models."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.passes: list[tuple[object, ...]] = []
        super().__init__([Recorder(0, self.passes), Recorder(1, self.passes)])
        self.rank, self.meeting = rank, meeting

    def _agree(self, wish: int) -> int:
        agreed = self.meeting(self.rank, wish)
        if agreed >= 2:
            self._used.add((agreed - 2) // 4)
        return agreed

    def work(self, name: str) -> Tensor:
        index, sees = WORK[name]
        self.forward(self.models[index], sees)
        return self.models[index].run(sees)

    def backward(self, loss: Tensor) -> None:
        self.passes.append(("backward",))
        loss.backward()


def together(jobs) -> list[Rank]:
    """Run a job on each rank at once."""
    meeting, failures = Meeting(len(jobs)), []
    ranks = [Rank(i, meeting) for i in range(len(jobs))]

    def run(rank: Rank, job) -> None:
        try:
            job(rank)
        except BaseException as error:
            failures.append(error)
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=pair) for pair in zip(ranks, jobs, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return ranks


def scores(names: list[str]):
    def job(rank: Rank) -> None:
        with torch.no_grad(), rank.together():
            for name in names:
                rank.work(name)

    return job


@pytest.mark.parametrize("seed", range(5))
def test_any_work_without_gradients_is_the_same_passes_on_all_ranks(seed):
    rng = random.Random(seed)
    jobs = [[rng.choice(list(WORK)) for _ in range(rng.randrange(6))] for _ in range(3)]
    first, *others = together([scores(job) for job in jobs])
    for rank in others:
        assert rank.passes == first.passes
    kinds = [(0, True, False), (0, False, False), (1, False, False)]
    for name, kind in zip(WORK, kinds, strict=True):
        needed = max(job.count(name) for job in jobs)
        assert needed <= first.passes.count(kind) <= sum(job.count(name) for job in jobs)
    assert [model.reset for model in first.models] == [int(any(k[0] == i for k in first.passes)) for i in (0, 1)]


def micro_batches(counts: list[list[str]]):
    """Passes and a backward pass for each micro-batch, then the exchange."""

    def job(rank: Rank) -> None:
        with rank.together():
            for names in counts:
                loss = torch.stack([rank.work(name) for name in names]).sum()
                rank.backward(rank.joined(loss))
            rank.exchange(rank.models[0], rank.backward)

    return job


def test_micro_batches_of_any_number_and_kind_are_the_same_passes_and_only_real_ones_count():
    """Rank 0 sees pictures in one of two micro-batches, rank 1 has one of text, rank 2 none."""
    jobs = [[["see", "read"], ["read"]], [["read"]], []]
    ranks = together([micro_batches(job) for job in jobs])
    forward = [[step for step in rank.passes if step != ("backward",)] for rank in ranks]
    see, read = (0, True, True), (0, False, True)
    assert forward[0] == forward[1] == forward[2] == [see, read, read, ("sync", True), see, read, ("sync", False)]
    assert [float(rank.models[0].weight.grad) for rank in ranks] == [6.0, 2.0, 0.0]
    assert [rank.empty_passes for rank in ranks] == [0, 3, 5]  # backward passes included


def test_stages_may_be_nested_and_a_pass_outside_is_an_error():
    def job(rank: Rank) -> None:
        with torch.no_grad(), rank.together():
            for name in ["read"] * rank.rank:
                with rank.together():
                    rank.work(name)

    one, two = together([job, job])
    assert one.passes == two.passes == [(0, False, False)]
    with pytest.raises(AssertionError, match="outside of a stage"):
        Rank(0, Meeting(1)).work("see")


def test_alone_nothing_is_added():
    pace, loss = Pace(), torch.ones((), requires_grad=True)
    with pace.together():
        pace.forward(None, True)
        assert pace.joined(loss) is loss
    model = torch.nn.Linear(2, 2)
    pace.exchange(model, lambda zero: zero.backward())
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())
