"""Ranks that share out their models do the same passes in the same order, however much work each of them has.

A layer whose parameters are spread over ranks is gathered by all of them, or all of them wait for ever. What a rank has
to do differs: text only, fewer rows, shorter responses, features already known. So before every pass the ranks agree on
the next one, and who has nothing of that kind runs an empty pass along: one token, or the smallest picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

Found = TypeVar("Found")
DONE, BACKWARD, FORWARD = 0, 1, 2  # wishes, the last one for the first forward pass; the highest wish goes first


class Pace:
    """Every rank for itself: no pass waits for another rank."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """A stage: all ranks enter and leave it, with any number of passes in between. Stages may be nested."""
        yield

    def forward(self, model: Any, sees: bool) -> None:
        """Comes before a forward pass of the vision tower (``sees``) or of the language model."""

    def joined(self, loss: Tensor) -> Tensor:
        """Comes before a backward pass: what to run it on."""
        return loss

    def exchange(self, model: nn.Module, backward: Callable[[Tensor], None]) -> None:
        """Average the gradients of all backward passes over ranks, by one of value zero that touches every trained
        parameter: ranks may have seen any number of micro-batches, none included, and pictures or not."""
        backward(0.0 * torch.stack([p.sum() for p in model.parameters() if p.requires_grad]).sum())


class Paced(nn.Module):
    """A model whose passes may have to go in step with those of other ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.pace = Pace()
        self.work_device: torch.device | None = None  # where weights are gathered, if they rest elsewhere
        self.work_dtype: torch.dtype | None = None  # and in which type, if in another

    def forward(self, work: Callable[[], None]) -> None:
        """Every use of the weights but the head's, which follows one: where they are shared out, hooks of this call
        gather those that belong to no layer, and leave them for the head."""
        work()

    def _pass(self, sees: bool, work: Callable[[], Found]) -> Found:
        """A pass of the vision tower (``sees``) or of the language model, in step with other ranks."""
        self.pace.forward(self, sees)
        return self._entered(work)

    def _entered(self, work: Callable[[], Found]) -> Found:
        found: list[Found] = []
        self(lambda: found.append(work()))
        return found[0]

    def empty_pass(self, sees: bool) -> Tensor:
        """0 from a pass over next to nothing, of which every weight is a part."""
        return 0.0 * self._entered(self._smallest_picture if sees else self._shortest_text)

    def _smallest_picture(self) -> Tensor:
        """Any number from a pass over a picture."""
        raise NotImplementedError

    def _shortest_text(self) -> Tensor:
        """Any number from a pass over a token, head included."""
        raise NotImplementedError


class Lockstep(Pace):
    """Ranks pass by pass in step.

    Args:
        models: all that are shared out, in the same order on all ranks.
        sync_each: average gradients in every backward pass, which keeps a rank's part of them only; else once, in
            ``exchange``: one exchange, but whole gradients on every rank until then.
    """

    def __init__(self, models: Sequence[Any], sync_each: bool = False) -> None:
        self.models, self.sync_each = list(models), sync_each
        self.depth, self.empty_passes = 0, 0
        self._used: set[int] = set()
        self._idle: list[Tensor] = []  # zeros whose graphs the next backward pass has to go through

    @contextmanager
    def together(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
        if not self.depth:
            self._finish()
            for index in sorted(self._used):
                self.models[index].reset_iter_state()  # frees what was gathered
            self._used.clear()

    def forward(self, model: Any, sees: bool) -> None:
        assert self.depth, "a pass outside of a stage: other ranks would not run along"
        index = next(i for i, known in enumerate(self.models) if known is model)
        self._turn(FORWARD + 4 * index + 2 * sees + torch.is_grad_enabled())

    def joined(self, loss: Tensor) -> Tensor:
        self._turn(BACKWARD)
        return loss + self._zeros()

    def exchange(self, model: Any, backward: Callable[[Tensor], None]) -> None:
        self._finish()
        model.set_requires_gradient_sync(True)
        backward(torch.stack([model.empty_pass(sees) for sees in (True, False)]).sum())
        model.set_requires_gradient_sync(self.sync_each)

    def _turn(self, wish: int) -> None:
        """Run along until it is this rank's turn."""
        while (agreed := self._agree(wish)) != wish:
            self._run_along(agreed)

    def _finish(self) -> None:
        """Run along until all ranks are here."""
        self._turn(DONE)

    def _agree(self, wish: int) -> int:
        agreed = torch.tensor(wish, device=self.models[0].device)
        distributed.all_reduce(agreed, distributed.ReduceOp.MAX)
        found = int(agreed)
        if found >= FORWARD:
            self._used.add((found - FORWARD) // 4)
        return found

    def _run_along(self, agreed: int) -> None:
        self.empty_passes += 1
        if agreed == BACKWARD:
            self._zeros().backward()
            return
        index, kind = divmod(agreed - FORWARD, 4)
        with torch.set_grad_enabled(bool(kind % 2)):
            zero = self.models[index].empty_pass(bool(kind // 2))
        if zero.requires_grad:
            self._idle.append(zero)

    def _zeros(self) -> Tensor:
        zeros, self._idle = self._idle, []
        return torch.stack(zeros).sum() if zeros else torch.zeros((), device=self.models[0].device)
