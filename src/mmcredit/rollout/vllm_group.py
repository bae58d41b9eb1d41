"""One vLLM spread over k neighbouring training ranks (tensor parallel, started by vLLM's "external launcher").

Every rank of a group runs vLLM's scheduler for itself and holds a k-th of every layer, so all must be given the same
requests in the same order: those of all ranks of the group, one after another. Each keeps the replies to its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

from torch import Tensor, distributed

from mmcredit.functional import rank, stable_seed, world
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.rollout.vllm_core import Core, LocalCore, Reply, Request
from mmcredit.types import UserError

Value = TypeVar("Value")


def colocated(path: str, tensor_parallel_size: int = 1, **options: Any) -> Core:
    """vLLM in the training processes: one a rank, or one a group of neighbouring ranks.

    Args:
        tensor_parallel_size: k, ranks that share a vLLM; it must divide the number of ranks. Others as ``LocalCore``.
    """
    core = LocalCore(path, **options)
    core.options["tensor_parallel_size"] = tensor_parallel_size
    return core if tensor_parallel_size == 1 else GroupCore(core, tensor_parallel_size)


def check_split(size: int, ranks: int) -> None:
    """Whether so many ranks can form groups of this size.

    Raises:
        UserError: they cannot.
    """
    if size < 1 or ranks % size:
        allowed = ", ".join(str(k) for k in range(1, ranks + 1) if ranks % k == 0)
        raise UserError(
            f"rollout.engine.core.tensor_parallel_size={size} must divide the number of training processes "
            f"(trainer.devices x trainer.num_nodes), here {ranks}: {allowed}"
        )


class GroupCore:
    """A ``Core`` that the ranks of a group share. All of them must make every call, with any number of requests each.

    Args:
        core: this rank's part of vLLM.
        size: k, ranks a group: 0..k-1 are the first, k..2k-1 the second, ...
    """

    def __init__(self, core: Core, size: int) -> None:
        self.core, self.size = core, size
        self.held: list[Any] = []

    @cached_property
    def group(self) -> Any:
        """Of this rank; all ranks of the run must come here together."""
        return distributed.new_subgroups(self.size, backend="gloo")[0]

    def count_before_sampling(self, plain: bool) -> None:
        """See ``Core``."""
        self.core.count_before_sampling(plain)

    def generate(
        self, requests: Sequence[Request], law: SamplingLaw, forbidden: Sequence[int], ends: Sequence[int]
    ) -> list[Reply]:
        """See ``Core``.

        Raises:
            RuntimeError: the ranks of the group sampled different tokens.
        """
        shares = self._gather(list(requests))  # of copies that all have: vLLM caches pictures by their contents
        joined = [request for share in shares for request in share]
        if not joined:
            return []
        replies = self.core.generate(joined, law, forbidden, ends)
        if len(set(self._gather(stable_seed([reply.ids for reply in replies])))) > 1:
            ranks = distributed.get_process_group_ranks(self.group)
            raise RuntimeError(f"ranks {ranks[0]} to {ranks[-1]} share one vLLM and sampled different tokens")
        start = sum(map(len, shares[: rank() % self.size]))
        return replies[start : start + len(requests)]

    def load(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """See ``Core``: every rank is given whole weights and takes its part."""
        self.core.load(weights)

    def sleep(self) -> None:
        """See ``Core``."""
        self.core.sleep()

    def wake(self) -> None:
        """See ``Core``.

        Raises:
            UserError: see ``check_split``.
        """
        check_split(self.size, world())
        self.core.wake()

    def _gather(self, value: Value) -> list[Value]:
        """The value of every rank of the group: processes of this run alone."""
        found: list[Value] = [value] * self.size
        distributed.all_gather_object(found, value, group=self.group)
        return found
