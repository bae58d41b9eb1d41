"""Work that may hang or eat memory, in processes that can be killed.

A worker is a new interpreter (nothing is forked, no main module is imported again): it may be started from any thread,
from a data-loader worker and after a fork. Requests and answers are lines of JSON. A worker that misses its deadline is
killed and replaced. It also ends itself when its deadline passes (a timer of the kernel), its input closes or its
parent is gone, so that none outlives the run.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any

START_SECONDS = 60.0  # until a new worker must be ready, imports included
GONE, RAISED = "the worker is gone", "raised "
GRACE_SECONDS = 0.5  # between the end of a deadline and the worker's own timer


@dataclass(frozen=True, slots=True)
class Reply:
    """What the task returned, or ``failure``: ``timeout``, ``memory``, ``raised <error>``, or why no worker."""

    value: Any
    failure: str = ""


class _Worker:
    """One process. Used by one thread at a time."""

    def __init__(self, task: str, memory_mb: int) -> None:
        here = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mmcredit.reward.worker", task, str(memory_mb)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": here, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        self.buffer, self.ready = b"", False

    def ask(self, arguments: list[Any], seconds: float) -> Reply:
        """The task's reply, or why there is none."""
        if not self.ready and self._line(START_SECONDS) is None:
            return Reply(None, "the worker did not start")
        self.ready = True
        request = json.dumps({"arguments": arguments, "seconds": seconds + GRACE_SECONDS}).encode() + b"\n"
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(request)
        except OSError:
            return Reply(None, GONE)
        line = self._line(seconds)
        if line is None:
            return Reply(None, "timeout" if self.process.poll() is None else "the worker died")
        return Reply(**json.loads(line))

    def _line(self, seconds: float) -> bytes | None:
        end = time.monotonic() + seconds
        stream = self.process.stdout
        assert stream is not None
        poller = select.poll()  # select() refuses file descriptors above 1023
        poller.register(stream, select.POLLIN | select.POLLHUP)
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not poller.poll(1000 * left):
                return None
            chunk = os.read(stream.fileno(), 65536)
            if not chunk:
                self.process.wait()
                return None
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.forget()

    def forget(self) -> None:
        """Close this process's ends of the pipes."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class Workers:
    """At most ``size`` workers of one task, started when they are first needed. Safe in threads and after a fork.

    Args:
        task: ``package.module.function``; it takes the arguments of ``ask`` and returns what JSON can hold.
        seconds: deadline of one call, starting included only as far as it exceeds ``START_SECONDS``.
        memory_mb: address space of a worker, MiB.
        size: workers at a time; further callers wait.
    """

    def __init__(self, task: str, seconds: float = 1.0, memory_mb: int = 1024, size: int = 2) -> None:
        self.task, self.seconds, self.memory_mb, self.size = task, seconds, memory_mb, size
        self._reset()
        _POOLS.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: vars(self)[name] for name in ("task", "seconds", "memory_mb", "size")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _reset(self) -> None:
        self.idle: list[_Worker] = []
        self.busy: set[_Worker] = set()
        self.slots = threading.BoundedSemaphore(self.size)
        self.lock = threading.Lock()

    def ask(self, *arguments: Any) -> Reply:
        """The task's value for these arguments, within the deadline. Never raises for what the task does."""
        with self.slots:
            reply = self._once(arguments)
            return self._once(arguments) if reply.failure == GONE else reply  # it died while it was idle

    def _once(self, arguments: tuple[Any, ...]) -> Reply:
        worker = self._take()
        try:
            reply = worker.ask(list(arguments), self.seconds)
        except BaseException:  # Ctrl-C: the worker's answer belongs to nobody
            self._drop(worker)
            raise
        if not reply.failure or reply.failure.startswith(RAISED):
            with self.lock:
                self.busy.discard(worker)
                self.idle.append(worker)
        else:
            self._drop(worker)
        return reply

    def _take(self) -> _Worker:
        with self.lock:
            worker = self.idle.pop() if self.idle else _Worker(self.task, self.memory_mb)
            self.busy.add(worker)
            return worker

    def _drop(self, worker: _Worker) -> None:
        worker.close()
        with self.lock:
            self.busy.discard(worker)

    def close(self) -> None:
        """End all workers; the next call starts new ones."""
        with self.lock:
            workers, self.idle = [*self.idle, *self.busy], []
        for worker in workers:
            worker.close()

    def _forked(self) -> None:
        """In the child of a fork: the parent's workers are none of its own."""
        for worker in (*self.idle, *self.busy):
            worker.process.returncode = 0  # not our child: never to be waited for
            worker.forget()
        self._reset()


_POOLS: weakref.WeakSet[Workers] = weakref.WeakSet()


def _close_all() -> None:
    for pool in list(_POOLS):
        pool.close()


def _forget_all() -> None:
    for pool in list(_POOLS):
        pool._forked()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
