"""Requests on their way to a chat model, and what becomes of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Generic, TypeVar

from mmcredit.services.prompts import Failure, Prompt

T = TypeVar("T")


@dataclass(eq=False)
class Asked(Generic[T]):
    """Requests on their way, each distinct prompt once.

    Args:
        prompts: as they were given.
        futures: what becomes of each, as its counter is called, and the answer.
        deadline: monotonic seconds.
        counters: of the service, counted up when the answers are there.
        report: told the failures, and the number of distinct requests.
    """

    prompts: Sequence[Prompt]
    futures: Mapping[Prompt, Future[tuple[str, T | Failure]]]
    deadline: float
    counters: Counter[str]
    report: Callable[[Sequence[Failure], int], None]
    answers: list[T | Failure] | None = None

    def result(self) -> list[T | Failure]:
        """An answer a prompt, in order. Waits until the deadline at most; counts and warns the first time."""
        if self.answers is None:
            wait(self.futures.values(), max(0.0, self.deadline - time.monotonic()))
            outcomes = {prompt: outcome(future) for prompt, future in self.futures.items()}
            self.counters["requests"] += len(outcomes)
            self.counters["duplicates"] += len(self.prompts) - len(outcomes)
            self.counters.update(how for how, _ in outcomes.values())
            failures = [answer for _, answer in outcomes.values() if isinstance(answer, Failure)]
            self.report(failures, len(outcomes))
            self.answers = [outcomes[prompt][1] for prompt in self.prompts]
        return self.answers


def outcome(future: Future[tuple[str, T | Failure]]) -> tuple[str, T | Failure]:
    """What became of a request; one that is still on its way is cut off."""
    if future.cancel() or future.cancelled():
        return "failed/deadline", Failure("deadline")
    if error := future.exception():
        return "failed/unexpected", Failure("unexpected", type(error).__name__)
    return future.result()
