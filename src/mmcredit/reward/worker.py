"""``python -m mmcredit.reward.worker <package.module.function> <MiB>``: one worker, see ``workers.py``."""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Iterator
from typing import Any

POLL_SECONDS = 1.0  # between two looks at whether the parent still lives


def main(task: str, memory_mb: int) -> None:
    """Serve requests until the input ends or the parent is gone."""
    parent = os.getppid()
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints is no reply
    module, _, name = task.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    limit = memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    replies.write(b"ready\n")
    for line in _lines(sys.stdin.fileno(), parent):
        request = json.loads(line)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the kernel ends the process, whatever it computes
        signal.setitimer(signal.ITIMER_REAL, request["seconds"])
        reply = _reply(function, request["arguments"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        replies.write(json.dumps(reply).encode() + b"\n")


def _lines(stream: int, parent: int) -> Iterator[bytes]:
    buffer = b""
    while os.getppid() == parent:
        if not select.select([stream], [], [], POLL_SECONDS)[0]:
            continue
        chunk = os.read(stream, 65536)
        if not chunk:
            return
        buffer += chunk
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            yield line


def _reply(function: Any, arguments: list[Any]) -> dict[str, Any]:
    try:
        return {"value": function(*arguments)}
    except MemoryError:
        return {"value": None, "failure": "memory"}
    except Exception as error:
        return {"value": None, "failure": f"raised {type(error).__name__}"}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
