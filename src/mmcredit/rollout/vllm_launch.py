"""Where a vLLM in a training process starts: beside the other ranks, on the GPU on which this one trains."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from mmcredit.functional import gather, rank, world


def alone() -> dict[str, Any]:
    """What ``vllm.LLM`` is given in a single process: by itself it takes the first GPU, whatever this process trains
    on, as in trainer.devices=[2]."""
    device = torch.cuda.current_device() if torch.cuda.is_available() else 0
    if device == 0:
        return {}
    from vllm.v1.executor.uniproc_executor import UniProcExecutor

    class Here(UniProcExecutor):
        def _distributed_args(self) -> tuple[str, int, int]:
            address, rank, _ = super()._distributed_args()
            return address, rank, device

    return {"distributed_executor_backend": Here}


@contextmanager
def launched() -> Iterator[Any]:
    """What torchrun would have set and vLLM reads; Lightning and srun leave some of it out. The local rank is that of
    the GPU on which this rank trains: it need not be the rank's own, as in trainer.devices=[2,3]."""
    device = torch.cuda.current_device() if torch.cuda.is_available() else rank()
    wanted = {"RANK": str(rank()), "LOCAL_RANK": str(device), "WORLD_SIZE": str(world())}
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield _executor()
    finally:
        for key, value in before.items():
            os.environ.pop(key, None)
            os.environ.update({} if value is None else {key: value})


def _executor() -> Any:
    """vLLM's external launcher. Its CPU build names shared memory after what follows the last colon of this address,
    which is the same in all runs on a machine: another, or one that was killed, would be in the way."""
    from vllm.platforms import current_platform
    from vllm.v1.executor.uniproc_executor import ExecutorWithExternalLauncher

    name = gather(secrets.token_hex(8))[0]

    class Named(ExecutorWithExternalLauncher):
        def _distributed_args(self) -> tuple[str, int, int]:
            address, *ranks = super()._distributed_args()
            return f"{address}:{name}", *ranks

    return Named if current_platform.is_cpu() else "external_launcher"
