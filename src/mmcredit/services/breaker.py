"""Leaving a service alone that does not work."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass
class Breaker:
    """Opens after ``failures`` faults in a row; after ``seconds`` one probe decides whether it closes again."""

    failures: int
    seconds: float
    faults: int = 0  # in a row
    retry_at: float = 0.0  # monotonic seconds

    def allows(self) -> bool:
        """Whether a call may be made now; a probe takes the only place until it has been judged or has gone missing
        for ``seconds``."""
        if self.faults < self.failures:
            return True
        if time.monotonic() < self.retry_at:
            return False
        self._wait()
        return True

    def judge(self, works: bool) -> None:
        """Report how a call went."""
        self.faults = 0 if works else self.faults + 1
        if self.faults >= self.failures:
            self._wait()

    def _wait(self) -> None:
        self.retry_at = time.monotonic() + self.seconds
