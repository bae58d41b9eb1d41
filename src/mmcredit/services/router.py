"""The door of claim routers, and the base of those that need no server."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from mmcredit.services.claims import Routing
from mmcredit.types import Sample

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RoutingRequest:
    """A response to a sample's question."""

    sample: Sample
    response: str


class Pending(Protocol[T]):
    """Answers on their way."""

    def result(self) -> list[T]:
        """One answer a request, in their order. Waits until the step's deadline at most; never raises for faults of
        a service. A second call returns the same."""


class Router(Protocol):
    """Marks the direct visual claims of responses.

    ``counters`` add up over distinct requests: ``requests`` = ``answered`` + ``cached`` + sum of ``failed/<kind>``;
    ``duplicates`` counts those beyond the distinct ones, ``spans`` and ``dropped`` the spans of all responses.
    """

    name: str  # for messages
    counters: Counter[str]

    def submit(self, requests: Sequence[RoutingRequest]) -> Pending[Routing]:
        """Start routing; never blocks. Identical requests are asked once."""


@dataclass(frozen=True)
class Ready:
    """Routings that are known already, given out at a moment of the monotonic clock, in seconds."""

    routings: list[Routing]
    due: float

    def result(self) -> list[Routing]:
        """See ``Pending``."""
        time.sleep(max(0.0, self.due - time.monotonic()))
        return self.routings


class LocalRouter(ABC):
    """A router that answers by itself, at once or after ``delay_seconds`` (to study slow services)."""

    name: str

    def __init__(self, delay_seconds: float = 0.0) -> None:
        self.delay_seconds = delay_seconds
        self.counters: Counter[str] = Counter()

    @abstractmethod
    def route(self, sample: Sample, response: str) -> Routing:
        """The routing of one response."""

    def submit(self, requests: Sequence[RoutingRequest]) -> Pending[Routing]:
        """See ``Router``."""
        due = time.monotonic() + self.delay_seconds
        distinct = {(r.sample.id, r.sample.question, r.response): r for r in requests}
        routed = {key: self.route(r.sample, r.response) for key, r in distinct.items()}
        self.counters["requests"] += len(routed)
        self.counters["duplicates"] += len(requests) - len(routed)
        self.counters.update(f"failed/{r.failure}" if r.failure else "answered" for r in routed.values())
        routings = [routed[r.sample.id, r.sample.question, r.response] for r in requests]
        count_spans(self.counters, routings)
        return Ready(routings, due)


def count_spans(counters: Counter[str], routings: Sequence[Routing]) -> None:
    """Add the spans that were placed and dropped."""
    counters["spans"] += sum(len(r.spans) for r in routings)
    counters["dropped"] += sum(r.dropped for r in routings)
