"""The door of claim routers, and the base of those that need no server."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from mmcredit.services.claims import Routing
from mmcredit.services.service import LocalService, Pending, Place, Ready
from mmcredit.types import Rollout, Sample


@dataclass(frozen=True, slots=True)
class RoutingRequest:
    """A response to a sample's question."""

    sample: Sample
    response: str

    @property
    def key(self) -> tuple[str, ...]:
        """See ``Request``."""
        return self.sample.id, self.sample.question, self.response


class Router(Protocol):
    """Marks the direct visual claims of responses. A ``Service`` whose ``counters`` also hold ``spans`` and
    ``dropped``, those of all responses."""

    name: str
    counters: Counter[str]

    def submit(self, requests: Sequence[RoutingRequest]) -> Pending[Routing]:
        """Start routing; never blocks. Identical requests are asked once."""


def routing_requests(rollout: Rollout, where_BG: Tensor) -> dict[Place, RoutingRequest]:
    """About these responses (bool)."""
    samples, texts = rollout.prompts.samples, rollout.responses.texts
    return {(b, g): RoutingRequest(samples[b], texts[b][g]) for b, g in where_BG.nonzero().tolist()}


class LocalRouter(LocalService[RoutingRequest, Routing]):
    """A router that answers by itself, at once or after ``delay_seconds`` (to study slow services)."""

    @abstractmethod
    def route(self, sample: Sample, response: str) -> Routing:
        """The routing of one response."""

    def answer(self, request: RoutingRequest) -> Routing:
        """See ``LocalService``."""
        return self.route(request.sample, request.response)

    def submit(self, requests: Sequence[RoutingRequest]) -> Ready[Routing]:
        """See ``Service``."""
        ready = super().submit(requests)
        count_spans(self.counters, ready.answers)
        return ready


def count_spans(counters: Counter[str], routings: Sequence[Routing]) -> None:
    """Add the spans that were placed and dropped."""
    counters["spans"] += sum(len(r.spans) for r in routings)
    counters["dropped"] += sum(r.dropped for r in routings)
