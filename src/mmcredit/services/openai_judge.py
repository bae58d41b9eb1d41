"""Judges behind an OpenAI-compatible server (vLLM, OpenAI, ...). They read text only; temperature 0."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from mmcredit.functional import stable_seed
from mmcredit.services.asked import Asked
from mmcredit.services.chat import ChatService
from mmcredit.services.judge import Comparison, FactRequest, Score, ThinkingRequest, Verdict
from mmcredit.services.judge_prompts import COMPARE, FIND, RATE, RETRY, Facts, Preference, Quality, prompt
from mmcredit.services.prompts import Failure, Prompt, Task
from mmcredit.services.replies import json_object
from mmcredit.services.service import A, Q
from mmcredit.types import UserError

R = TypeVar("R")


class ChatJudge(ABC, Generic[Q, R, A]):
    """Base of the judges below.

    Args:
        chat: the service to ask.
        max_chars: characters of a response that are sent.

    Raises:
        UserError: ``max_chars`` below 1.
    """

    task: Task[R]
    failed: Callable[..., Any]  # makes the answer of a ``failure``

    def __init__(self, chat: ChatService, max_chars: int = 20_000) -> None:
        if max_chars < 1:
            raise UserError(f"judge.max_chars={max_chars} must be at least 1")
        self.chat, self.max_chars = chat, max_chars
        self.name, self.counters = chat.name, chat.counters

    @abstractmethod
    def prompts(self, request: Q) -> list[Prompt]:
        """What is asked: as many prompts for every request."""

    @abstractmethod
    def answer(self, request: Q, replies: Sequence[R]) -> A:
        """What the replies say."""

    def submit(self, requests: Sequence[Q]) -> Judging[Q, R, A]:
        """See ``Service``. The counters count prompts."""
        prompts = [self.prompts(request) for request in requests]
        return Judging(self, requests, self.chat.submit([p for own in prompts for p in own], self.task))


@dataclass(eq=False)
class Judging(Generic[Q, R, A]):
    """Answers on their way."""

    judge: ChatJudge[Q, R, A]
    requests: Sequence[Q]
    asked: Asked[R]
    answers: list[A] | None = None

    def result(self) -> list[A]:
        """See ``Pending``."""
        if self.answers is None:
            replies = self.asked.result()
            each = len(replies) // max(len(self.requests), 1)
            own = [replies[i * each : (i + 1) * each] for i in range(len(self.requests))]
            self.answers = [self._read(request, found) for request, found in zip(self.requests, own, strict=True)]
        return self.answers

    def _read(self, request: Q, replies: Sequence[R | Failure]) -> A:
        said = [reply for reply in replies if not isinstance(reply, Failure)]
        if len(said) == len(replies):
            return self.judge.answer(request, said)
        kind = next(reply.kind for reply in replies if isinstance(reply, Failure))
        return self.judge.failed(failure=kind)


def reader(kind: type[R]) -> Callable[[str], R]:
    """Reads a reply of this schema; further keys are ignored. It raises ValueError for an invalid one (``InvalidJson``
    where there is no JSON object)."""

    @cache
    def adapter() -> Any:
        from pydantic import TypeAdapter  # comes with the optional openai package

        return TypeAdapter(kind)

    return lambda reply: adapter().validate_json(json.dumps(json_object(reply)), strict=True)


class OpenAIJudge(ChatJudge[Comparison, Preference, Verdict]):
    """Asks a chat model which of two responses is the more faithful.

    Which one is shown as A is decided by a hash of the seed and the texts: neither place is favoured, and the same
    comparison is always shown the same way.

    Args:
        both_orders: ask in both orders; what is not agreed on is a tie.
        seed: another seed is another order.
    """

    task = Task(reader(Preference), RETRY, version="preference-1", without="no preference there")
    failed = Verdict

    def __init__(self, chat: ChatService, max_chars: int = 20_000, both_orders: bool = False, seed: int = 0) -> None:
        super().__init__(chat, max_chars)
        self.both_orders, self.seed = both_orders, seed

    def orders(self, request: Comparison) -> list[bool]:
        """Of each prompt, whether the response is A."""
        texts = (request.sample.question, request.truth, request.response, request.reference)
        first = stable_seed(self.seed, "judge order", *texts) % 2 == 0
        return [first, not first] if self.both_orders else [first]

    def prompts(self, request: Comparison) -> list[Prompt]:
        shown = request.response[: self.max_chars], request.reference[: self.max_chars]
        asked = {"question": request.sample.question, "description": request.truth}
        pairs = [shown if first else shown[::-1] for first in self.orders(request)]
        return [prompt(COMPARE, asked | {"A": a, "B": b}) for a, b in pairs]

    def answer(self, request: Comparison, replies: Sequence[Preference]) -> Verdict:
        orders = self.orders(request)
        said = {
            None if reply.better == "tie" else (reply.better == "A") == first
            for reply, first in zip(replies, orders, strict=True)
        }
        preferred = said.pop() if len(said) == 1 else None
        self.counters["disagreements"] += bool(said)
        self.counters["ties"] += preferred is None
        own = "A" if orders[0] else "B"
        return Verdict(preferred, tuple(e.error for e in replies[0].perceptual_errors if e.trace == own))


class OpenAIFacts(ChatJudge[FactRequest, Facts, Score]):
    """Asks a chat model which key facts a response states. Numbers of facts that do not exist are ignored."""

    task = Task(reader(Facts), RETRY, version="facts-1", without="no facts found there")
    failed = Score

    def prompts(self, request: FactRequest) -> list[Prompt]:
        facts = {str(i): fact for i, fact in enumerate(request.facts, 1)}
        trace = request.response[: self.max_chars]
        return [prompt(FIND, {"question": request.sample.question, "facts": facts, "trace": trace})]

    def answer(self, request: FactRequest, replies: Sequence[Facts]) -> Score:
        found = set(replies[0].found) & set(range(1, len(request.facts) + 1))
        return Score(len(found) / len(request.facts))


class OpenAIThinking(ChatJudge[ThinkingRequest, Quality, Score]):
    """Asks a chat model for the quality of a response's thinking."""

    task = Task(reader(Quality), RETRY, version="quality-1", without="no thinking reward there")
    failed = Score

    def prompts(self, request: ThinkingRequest) -> list[Prompt]:
        trace = request.response[: self.max_chars]
        return [prompt(RATE, {"question": request.sample.question, "trace": trace})]

    def answer(self, request: ThinkingRequest, replies: Sequence[Quality]) -> Score:
        return Score(replies[0].score)
