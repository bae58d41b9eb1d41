"""The same function on two processes that form a gloo group; forked from a server that has imported everything."""

from __future__ import annotations

import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed

WORLD, LIMIT = 2, 300  # processes; seconds


def on_two_ranks(function: Callable[[int], Any], folder: Path, limit: float = LIMIT) -> list[Any]:
    """What the function returned on each rank; it gets the rank. A rank that fails or hangs fails the test."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["ranks", "mmcredit.build", "mmcredit.fit"])
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [context.Process(target=_run, args=(function, rank, port, folder)) for rank in range(WORLD)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(limit)
    hanging = [process for process in processes if process.is_alive()]
    for process in hanging:
        process.kill()
    assert not hanging, "a rank hangs"
    found = [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(WORLD)]
    for result in found:
        assert not isinstance(result, str), result
    return found


def _run(function: Callable[[int], Any], rank: int, port: int, folder: Path) -> None:
    here = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCAL_RANK": rank, "NODE_RANK": 0, "WORLD_SIZE": WORLD}
    os.environ.update({key: str(value) for key, value in here.items()})
    distributed.init_process_group("gloo", rank=rank, world_size=WORLD)
    try:
        result = function(rank)
    except BaseException:
        result = traceback.format_exc()
    torch.save(result, folder / f"{rank}.pt")
    os._exit(0)  # a rank that failed leaves the other in a collective: no barrier at the end
