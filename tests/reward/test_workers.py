"""Workers answer, are killed, replaced, and gone when they should be."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.utils.data import DataLoader, Dataset

from mmcredit.reward.workers import Reply, Workers

TASKS = "tests.reward.worker_tasks."
PATIENCE = 20.0  # seconds: a bound for a loaded machine, no measurement


@pytest.fixture
def pool() -> Iterator[Callable[..., Workers]]:
    made: list[Workers] = []

    def make(task: str, **options: float) -> Workers:
        made.append(Workers(TASKS + task, **{"seconds": PATIENCE, **options}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for workers in made:
        workers.close()


def alive(pid: int) -> bool:
    """Whether a process runs (one that is dead but not yet waited for does not)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    end = time.monotonic() + PATIENCE
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def test_nothing_is_started_before_the_first_call(pool):
    workers = pool("echo")
    assert not workers.idle and not workers.busy
    assert workers.ask("a") == Reply("a") and len(workers.idle) == 1


@pytest.mark.parametrize("value", ["", "\x00\n\u2028é", ["a", [1, 2.5, None]], {"k": True}, "x" * 200_000])
def test_values_come_back_whatever_the_task_prints(pool, value):
    assert pool("echo").ask(value) == Reply(value)


def test_a_worker_is_used_again_and_a_raised_error_does_not_end_it(pool):
    workers = pool("pid")
    first = workers.ask().value
    assert first not in (None, os.getpid()) and workers.ask().value == first
    failing = pool("fail")
    assert failing.ask() == Reply(None, "raised ValueError") and len(failing.idle) == 1


@pytest.mark.parametrize(("task", "arguments"), [("sleep", (3600,)), ("compute", ())])
def test_a_worker_that_hangs_is_killed_and_replaced(pool, task, arguments):
    workers = pool(task, seconds=0.3)
    begin = time.monotonic()
    assert workers.ask(*arguments) == Reply(None, "timeout")
    assert time.monotonic() - begin < PATIENCE and not workers.idle and not workers.busy
    if task == "sleep":
        workers.seconds = PATIENCE
        assert workers.ask(0).value == "awake"


def test_memory_is_limited(pool):
    assert pool("eat", memory_mb=512).ask() == Reply(None, "memory")


def test_a_worker_that_dies_is_reported_and_replaced(pool):
    workers = pool("die")
    assert workers.ask() == Reply(None, "the worker died")
    assert workers.ask() == Reply(None, "the worker died")


def test_a_worker_killed_while_idle_is_replaced_at_once(pool):
    workers = pool("pid")
    first = workers.ask().value
    os.kill(first, signal.SIGKILL)
    assert gone(first)
    second = workers.ask()
    assert not second.failure and second.value != first


def test_a_task_that_does_not_exist_is_reported(pool):
    assert pool("nowhere").ask() == Reply(None, "the worker did not start")


def test_threads_share_the_workers(pool):
    workers = pool("echo", size=2)
    with ThreadPoolExecutor(8) as threads:
        assert [reply.value for reply in threads.map(workers.ask, range(60))] == list(range(60))
    assert len(workers.idle) <= 2 and not workers.busy


def test_a_killed_worker_of_one_thread_disturbs_no_other(pool):
    workers = pool("sleep", seconds=1.5, size=3)
    with ThreadPoolExecutor(3) as threads:
        replies = list(threads.map(workers.ask, [0, 3600, 0, 0, 3600, 0, 0]))
    assert [reply.failure for reply in replies] == ["", "timeout", "", "", "timeout", "", ""]


def test_a_forked_child_starts_its_own_and_leaves_the_parents_alone(pool):
    workers = pool("pid")
    mine = workers.ask().value
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, f"{workers.ask().value} {len(workers.idle)}".encode())
        workers.close()
        os._exit(0)
    os.wait()
    theirs, idle = os.read(read, 100).decode().split()
    assert int(theirs) != mine and idle == "1"
    assert workers.ask().value == mine


def test_a_fork_while_another_thread_asks(pool):
    workers = pool("sleep", size=1)
    thread = threading.Thread(target=workers.ask, args=(1.0,))
    thread.start()
    time.sleep(0.3)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if workers.ask(0).value == "awake" else 1)
    assert os.waitpid(pid, 0)[1] == 0
    thread.join()


class Asking(Dataset):
    """Items are what a worker says."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return self.workers.ask(index).value


@pytest.mark.parametrize("context", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_data_loader_workers_may_ask(pool, context):
    workers = pool("echo")
    workers.ask("started before")
    loader = DataLoader(Asking(workers), batch_size=None, num_workers=2, multiprocessing_context=context)
    assert [int(value) for value in loader] == [0, 1, 2, 3]


def _ask_and_end(workers: Workers, queue: multiprocessing.Queue) -> None:
    queue.put(workers.ask().value)


def test_workers_of_a_process_end_with_it(pool):
    queue = multiprocessing.get_context("fork").Queue()
    child = multiprocessing.get_context("fork").Process(target=_ask_and_end, args=(pool("pid"), queue), daemon=True)
    child.start()
    worker = queue.get(timeout=PATIENCE)
    child.join()
    assert gone(worker)


SCRIPT = """
import sys, threading, time
from mmcredit.reward.workers import Workers
idle, busy = Workers({tasks!r} + "pid"), Workers({tasks!r} + "sleep", seconds=4)
print(idle.ask().value, flush=True)
if {hang}:
    threading.Thread(target=busy.ask, args=(3600,), daemon=True).start()
    while not busy.busy or not next(iter(busy.busy)).ready:
        time.sleep(0.01)
    time.sleep(0.1)
    print(next(iter(busy.busy)).process.pid, flush=True)
    time.sleep(3600)
"""


@pytest.mark.parametrize("hang", [False, True])
def test_no_orphans(hang):
    code = SCRIPT.format(tasks=TASKS, hang=hang)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        pids = [int(process.stdout.readline()) for _ in range(1 + hang)]
        if hang:
            process.kill()
    assert all(map(gone, pids))


def test_pickled_workers_are_started_anew(pool):
    workers = pool("echo", memory_mb=700)
    workers.ask(1)
    copy = pickle.loads(pickle.dumps(workers))
    assert copy.memory_mb == 700 and not copy.idle and copy.ask(2).value == 2
    copy.close()


def test_closed_workers_start_again(pool):
    workers = pool("pid")
    first = workers.ask().value
    workers.close()
    assert gone(first) and workers.ask().value != first
