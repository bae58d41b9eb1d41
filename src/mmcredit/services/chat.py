"""Many requests to a chat model behind an OpenAI-compatible server: bounded in number and time, cached, counted."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, TypeVar

from mmcredit.services.asked import Asked
from mmcredit.services.breaker import Breaker
from mmcredit.services.cache import DiskCache
from mmcredit.services.client import Line, content
from mmcredit.services.prompts import Failure, Prompt, Task
from mmcredit.types import UserError

T = TypeVar("T")
log = logging.getLogger(__name__)
QUIET_SECONDS = 300  # between two warnings of the same kind
INVALID = ("invalid_json", "invalid_schema")
LOWEST = {"concurrency": 1, "breaker_failures": 1, "request_seconds": 0.01, "step_seconds": 0.01}
LOWEST |= {"retries": 0, "backoff_seconds": 0.0, "breaker_seconds": 0.0}


@dataclass(eq=False)
class ChatService:
    """Asks a chat model. Faults become a ``Failure``, never an exception.

    Kinds of failure: ``timeout``, ``connection``, ``rate_limit`` (429), ``server_error`` (5xx), ``bad_request`` (other
    statuses; not tried again), ``invalid_json``, ``invalid_schema``, ``deadline`` (the step's), ``breaker_open``,
    ``unexpected``. ``counters``, over distinct prompts: ``requests`` = ``answered`` + ``cached`` + sum of
    ``failed/<kind>``. Beside that sum: ``duplicates``, ``attempts`` (HTTP requests), ``attempt/<kind>`` (those that
    failed, whatever became of the request), ``cache/corrupt``, ``cache/unwritten``.

    Args:
        name: the group and option that the user chose, for messages: ``router=openai``.
        model: name under which the server knows the model.
        base_url: ``http://host:port/v1``; None is OpenAI's.
        api_key_env: environment variable that holds the key; the key ``EMPTY`` is sent where it is not set.
        concurrency: most HTTP requests at a time.
        request_seconds: one HTTP request, from connection to last byte.
        step_seconds: from ``submit`` to the latest ``result``; what is still on its way then is cut off.
        retries: further attempts of a request; not after ``bad_request``.
        backoff_seconds: before the first retry of a server's fault; doubled each time.
        breaker_failures: faults of the server in a row (invalid replies are none) after which it is left alone ...
        breaker_seconds: ... for that long; then one request probes it.
        cache: folder of valid replies, None for none.
        request: further arguments of the completion call.

    Raises:
        UserError: a value out of range, no model, no ``openai`` package.
    """

    name: str
    model: str | None
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: int = 32
    request_seconds: float = 60.0
    step_seconds: float = 180.0
    retries: int = 2
    backoff_seconds: float = 0.5
    breaker_failures: int = 20
    breaker_seconds: float = 30.0
    cache: str | None = None
    request: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check(f"{self.name.partition('=')[0]}.chat")
        self.breaker = Breaker(self.breaker_failures, self.breaker_seconds)
        self.replies = DiskCache(self.cache)
        self.counters: Counter[str] = Counter()
        self._quiet_until: dict[str, float] = {}  # kind -> monotonic seconds
        self._line: Line | None = None

    def _check(self, node: str) -> None:
        try:
            import openai  # noqa: F401
        except ImportError:
            raise UserError(f"{self.name} needs the openai package: pip install 'mmcredit[services]'") from None
        if not self.model:
            raise UserError(
                f"{self.name} needs a model: {node}.model=<its name on the server>, and for a server of your own "
                f"{node}.base_url=http://localhost:8000/v1"
            )
        if self.base_url is not None and not self.base_url.startswith(("http://", "https://")):
            raise UserError(f"{node}.base_url={self.base_url} must start with http:// or https://")
        if not self.api_key_env.isidentifier():
            raise UserError(f"{node}.api_key_env must be the name of an environment variable, e.g. OPENAI_API_KEY")
        for key, lowest in LOWEST.items():
            value = getattr(self, key)
            if not isinstance(value, type(lowest) | int) or not value >= lowest:
                kind = "whole number" if isinstance(lowest, int) else "number"
                raise UserError(f"{node}.{key}={value} must be a {kind} at least {lowest}")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_line": None}  # the client holds the key

    def submit(self, prompts: Sequence[Prompt], task: Task[T]) -> Asked[T]:
        """Start asking; returns at once."""
        if self._line is None:
            self._line = Line(self.base_url, self.api_key_env, self.concurrency, self.request_seconds)
        deadline = time.monotonic() + self.step_seconds
        futures = {p: self._line.start(self._ask(self._line, p, task)) for p in dict.fromkeys(prompts)}
        return Asked(prompts, futures, deadline, self.counters, partial(self.report, without=task.without))

    async def _ask(self, line: Line, prompt: Prompt, task: Task[T]) -> tuple[str, T | Failure]:
        """What became of a request, as its counter is called, and the answer."""
        key = await asyncio.to_thread(self._key, prompt, task)
        if (kept := await self._read(key, task)) is not None:
            return "cached", kept
        failure, suffix = Failure("breaker_open"), ""
        for attempt in range(self.retries + 1):
            if failure.kind in INVALID:
                suffix = task.retry.format(attempt=attempt)
            elif attempt:
                await asyncio.sleep(self.backoff_seconds * 2 ** (attempt - 1))
            messages = prompt.messages(suffix)
            async with line.places:
                if not self.breaker.allows():
                    break
                reply = await self._attempt(line, messages, task)
            if not isinstance(reply, Failure):
                await self._write(key, reply[0])
                return "answered", reply[1]
            failure = reply
            if failure.kind == "bad_request":
                break
        return f"failed/{failure.kind}", failure

    async def _attempt(self, line: Line, messages: list[dict[str, Any]], task: Task[T]) -> tuple[str, T] | Failure:
        """One HTTP request: the reply and what it says."""
        self.counters["attempts"] += 1
        try:
            async with asyncio.timeout(self.request_seconds):
                asked = {"temperature": 0.0, **self.request, "model": self.model, "messages": messages}
                text = content(await line.client.chat.completions.create(**asked))
        except Exception as error:  # whatever it is, training goes on
            reply: tuple[str, T] | Failure = line.failure(error)
        else:
            reply = task.read(text)
        self.breaker.judge(works=not isinstance(reply, Failure) or reply.kind in INVALID)
        if isinstance(reply, Failure):
            self.counters[f"attempt/{reply.kind}"] += 1
        return reply

    def _key(self, prompt: Prompt, task: Task[Any]) -> str:
        asked = [self.model, dict(self.request), prompt.messages(), task.version]
        return blake2b(json.dumps(asked, sort_keys=True, default=str).encode(), digest_size=20).hexdigest()

    async def _read(self, key: str, task: Task[T]) -> T | None:
        try:
            text = await asyncio.to_thread(self.replies.read, key)
            return None if text is None else task.parse(text)
        except (ValueError, OSError):
            self.counters["cache/corrupt"] += 1
            return None

    async def _write(self, key: str, text: str) -> None:
        try:
            await asyncio.to_thread(self.replies.write, key, text)
        except OSError:
            self.counters["cache/unwritten"] += 1

    def report(self, failures: Sequence[Failure], total: int, without: str) -> None:
        """Warn of the failures among some requests, each kind once in a while."""
        for kind, count in Counter(f.kind for f in failures).items():
            if time.monotonic() < self._quiet_until.get(kind, 0.0):
                continue
            self._quiet_until[kind] = time.monotonic() + QUIET_SECONDS
            detail = next((f": {f.detail}" for f in failures if f.kind == kind and f.detail), "")
            log.warning("%s: %d of %d requests failed (%s%s): %s", self.name, count, total, kind, detail, without)
