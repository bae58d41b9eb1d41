"""What the workers of the tests do."""

from __future__ import annotations

import os
import sys
import time


def echo(value: object) -> object:
    print("this is no reply")
    return value


def pid() -> int:
    return os.getpid()


def sleep(seconds: float) -> str:
    time.sleep(seconds)
    return "awake"


def compute() -> int:
    """One operation of the interpreter's C code that takes hours and can't be interrupted from Python."""
    return len(str(pow(3, 10**10)))


def eat() -> int:
    return len(bytearray(2**33))


def fail() -> None:
    raise ValueError("no")


def die() -> None:
    sys.stdout.flush()
    os._exit(3)


def hang(*_: object) -> None:
    while True:
        pass
