"""What every service has in common: submit now, collect later. And the base of those that need no server."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

T = TypeVar("T")
Place = tuple[int, int]  # prompt, response


class Request(Protocol):
    """Something asked about a response."""

    @property
    def key(self) -> tuple[str, ...]:
        """Requests of equal keys are the same request."""


class Answer(Protocol):
    """What became of a request."""

    @property
    def failure(self) -> str | None:
        """Kind of fault; None when the service answered."""


Q = TypeVar("Q", bound=Request)
Q_contra = TypeVar("Q_contra", bound=Request, contravariant=True)
A = TypeVar("A", bound=Answer)


class Pending(Protocol[T]):
    """Answers on their way."""

    def result(self) -> list[T]:
        """One answer a request, in their order. Waits until the step's deadline at most; never raises for faults of
        a service. A second call returns the same."""


class Service(Protocol[Q_contra, T]):
    """Answers requests.

    ``counters`` add up over distinct requests: ``requests`` = ``answered`` + ``cached`` + sum of ``failed/<kind>``;
    ``duplicates`` counts those beyond the distinct ones.
    """

    name: str  # for messages
    counters: Counter[str]

    def submit(self, requests: Sequence[Q_contra]) -> Pending[T]:
        """Start; never blocks. Identical requests are asked once."""


@dataclass(frozen=True)
class Ready(Generic[T]):
    """Answers that are known already, given out at a moment of the monotonic clock, in seconds."""

    answers: list[T]
    due: float

    def result(self) -> list[T]:
        """See ``Pending``."""
        time.sleep(max(0.0, self.due - time.monotonic()))
        return self.answers


class LocalService(ABC, Generic[Q, A]):
    """Answers by itself, at once or after ``delay_seconds`` (to study slow services)."""

    name: str
    embedded: ClassVar[bool] = False  # knows the embedded world only

    def __init__(self, delay_seconds: float = 0.0) -> None:
        self.delay_seconds = delay_seconds
        self.counters: Counter[str] = Counter()

    @abstractmethod
    def answer(self, request: Q) -> A:
        """The answer to one request."""

    def submit(self, requests: Sequence[Q]) -> Ready[A]:
        """See ``Service``."""
        due = time.monotonic() + self.delay_seconds
        distinct = {request.key: request for request in requests}
        answers = {key: self.answer(request) for key, request in distinct.items()}
        self.counters["requests"] += len(answers)
        self.counters["duplicates"] += len(requests) - len(answers)
        self.counters.update(f"failed/{a.failure}" if a.failure else "answered" for a in answers.values())
        return Ready([answers[request.key] for request in requests], due)


class Ahead(Generic[Q, A]):
    """Requests sent right after sampling, their answers collected where they are needed.

    They are kept by key, so that prompts may be dropped or joined in between.

    Args:
        service: answers.
    """

    def __init__(self, service: Service[Q, A]) -> None:
        self.service = service
        self._asked: dict[tuple[str, ...], tuple[Pending[A], int]] = {}

    def ask(self, requests: Mapping[Place, Q]) -> None:
        """Start those that are not on their way yet."""
        fresh = {request.key: request for request in requests.values() if request.key not in self._asked}
        if fresh:
            pending = self.service.submit(list(fresh.values()))
            self._asked |= {key: (pending, i) for i, key in enumerate(fresh)}

    def collect(self, requests: Mapping[Place, Q]) -> dict[Place, A]:
        """Their answers; asks what was not asked yet, waits, and forgets the step."""
        self.ask(requests)
        asked = {place: self._asked[request.key] for place, request in requests.items()}
        self._asked.clear()
        return {place: pending.result()[i] for place, (pending, i) in asked.items()}
