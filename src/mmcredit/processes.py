"""Processes that torchrun or srun starts: which one this is, and the name of the run, on which all agree."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

from mmcredit.types import UserError

WAIT = 300  # seconds that a process waits for the first one's name of the run
QUIET = ("hydra.output_subdir=null", "hydra/job_logging=stdout")  # of all but the first: files are its matter


def rank() -> int:
    """Number of this process among those started from outside; 0 where it stands alone."""
    return int(os.environ["RANK"] if torchrun() else os.environ["SLURM_PROCID"] if srun() else 0)


def started() -> int | None:
    """Processes started from outside; None where the trainer starts them itself."""
    if torchrun():
        return int(os.environ["WORLD_SIZE"])
    return int(os.environ["SLURM_STEP_NUM_TASKS"]) if srun() else None


def torchrun() -> bool:
    """Whether torchrun started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def srun() -> bool:
    """Whether srun started this process, as one of several, without torchrun."""
    return not torchrun() and int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1


@cache
def run_name(form: str = "%Y-%m-%d/%H-%M-%S") -> str:
    """Day and time at which the first process started; under srun job and step, which a requeued job keeps."""
    if srun():
        return f"slurm-{os.environ['SLURM_JOB_ID']}-{os.environ['SLURM_STEP_ID']}"
    return agree(f"run_name/{form}", lambda: time.strftime(form))


def agree(key: str, say: Callable[[], str]) -> str:
    """What the first process says, in all processes that torchrun started; ``say()`` in one alone."""
    if (started() or 1) == 1:
        return say()
    store, number = _store()
    if number == 0:
        store.set(f"mmcredit/{key}", say())
    return str(store.get(f"mmcredit/{key}").decode())


@cache  # where torchrun has no store of its own, the first process's lives as long as this reference
def _store() -> tuple[Any, int]:
    """The key-value store at which the process group will meet, too; this process's rank."""
    from torch.distributed import rendezvous

    store, number, _ = next(rendezvous("env://", timeout=timedelta(seconds=WAIT)))
    return store, number


def check_processes(wanted: int, nodes: int) -> None:
    """As many processes as the trainer expects.

    Raises:
        UserError: others were started, or nobody starts those of other nodes.
    """
    found = started()
    if found is not None and found != wanted:
        tool = "torchrun" if torchrun() else "srun"
        raise UserError(
            f"{tool} started {found} processes, but trainer.devices x trainer.num_nodes is {wanted}: "
            "set trainer.devices to the processes of one node"
        )
    if found is None and nodes > 1:
        raise UserError(f"trainer.num_nodes={nodes} needs torchrun or srun on every node: see docs/multinode.md")


def leave() -> None:
    """The processes of a run end together: one whose connections to another break while it ends may crash."""
    if (torch := sys.modules.get("torch")) and torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
