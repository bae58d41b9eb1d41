"""The graders of other frameworks as verifiers, for papers that were trained with them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from mmcredit.data.answers import Kind, answer_kind, unbox
from mmcredit.reward.verdict import Outcome, Verdict
from mmcredit.reward.workers import Workers
from mmcredit.types import UserError


class Grader:
    """A function of ``graders.py`` in workers that are killed at their deadline.

    A gold answer that nothing can be compared with is unparsable, whatever the grader would say. Choices are not looked
    at.

    Args:
        task: the function.
        packages: modules that it needs.
        seconds: deadline of one comparison.
        memory_mb: address space of a worker, MiB.
        workers: at a time.

    Raises:
        UserError: a package is missing.
    """

    def __init__(
        self, task: str, packages: Sequence[str], seconds: float = 5.0, memory_mb: int = 2048, workers: int = 2
    ) -> None:
        self.name = task.rpartition(".")[2]
        if missing := [package for package in packages if find_spec(package) is None]:
            raise UserError(f"reward/verifier={self.name} needs {', '.join(missing)}: pip install 'mmcredit[verify]'")
        self.workers = Workers(task, seconds, memory_mb, workers)

    def verify(self, gold: str, answer: str, choices: Sequence[str] = ()) -> Verdict:
        """See ``mmcredit.reward.verifier.Verifier``."""
        gold, kind = unbox(gold), answer_kind(gold)
        if kind is Kind.UNPARSABLE:
            return Verdict(Outcome.UNPARSABLE, kind, "gold")
        reply = self.workers.ask(gold, answer)
        if reply.failure in ("timeout", "memory"):
            return Verdict(Outcome.TIMED_OUT, kind, self.name, reply.failure)
        if reply.value is None:
            return Verdict(Outcome.UNPARSABLE, kind, self.name, reply.failure)
        return Verdict(Outcome.RIGHT if reply.value else Outcome.WRONG, kind, self.name)
