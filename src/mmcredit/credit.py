"""The contract of a credit-assignment method, and the loop that applies a chain of them.

One training step, hooks marked ``->``::

    -> sampling_edits(step)                            pictures to sample from
    prompts -> responses -> grades -> rollout
    -> on_rollout(rollout, record)                     start slow services
    -> on_reward(rollout, scorer, record)              new reward, before the group statistics
    advantage = algorithm.advantage(reward)
    -> on_advantage(rollout, advantage, scorer, record)  new token advantage
    for every micro-batch:
        loss = reduce(surrogate)
        -> on_loss(micro, logp, scorer, record)        added to the loss
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import lightning
import torch
from torch import Tensor

from mmcredit.types import Rollout

if TYPE_CHECKING:
    from mmcredit.scoring.edits import ImageEdit
    from mmcredit.scoring.scorer import Scorer
    from mmcredit.scoring.views import View


@dataclass
class Record:
    """Collects what a step measured; observers write it out. Keys are namespaced by room or method."""

    scalars: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, Tensor] = field(default_factory=dict)
    per_response: dict[str, Tensor] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # by stage
    per_token: dict[str, Tensor] | None = None  # [B, G, T] each; None: no observer asked for them
    running: tuple[str, float] | None = None  # the stage under way, and when it began (``time.perf_counter``)

    def scalar(self, key: str, value: float | Tensor) -> None:
        """One number a step."""
        self.scalars[key] = float(value)

    def histogram(self, key: str, values: Tensor) -> None:
        """A distribution, with its mean as a scalar of the same key."""
        values = values.detach().float().flatten()
        self.histograms[key] = values
        if values.numel():
            self.scalars[key] = float(values.mean())

    def extend(self, key: str, values: Tensor) -> None:
        """Adds values to a distribution (a micro-batch's part), with the mean so far as a scalar of the same key."""
        values = values.detach().float().flatten().cpu()
        known = self.histograms.get(key)
        self.histogram(key, values if known is None else torch.cat([known, values]))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time spent inside to the stage's seconds."""
        start = time.perf_counter()
        before, self.running = self.running, (name, start)
        yield
        self.running = before
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def responses(self, key: str, values_BG: Tensor, where_BG: Tensor | None = None) -> None:
        """A number a response: shown in the sample table, and as a histogram (of the rows in ``where``)."""
        self.per_response[key] = values_BG.detach()
        self.histogram(key, values_BG if where_BG is None else values_BG[where_BG])

    def tokens(self, key: str, values_BGT: Tensor) -> None:
        """A number a response token, for credit maps; dropped unless an observer asked (``per_token``)."""
        if self.per_token is not None:
            self.per_token[key] = values_BGT.detach().cpu()

    def failures(self, method: str, kinds: Sequence[str | None]) -> None:
        """Share of a service's answers that failed, and the number of each kind; None for an answer."""
        failed = Counter(filter(None, kinds))
        self.scalar(f"{method}/failed_rate", failed.total() / max(len(kinds), 1))
        for kind, count in failed.items():
            self.scalar(f"{method}/failed_{kind}", count)


class CreditCallback(lightning.Callback):
    """A method. Override the hooks it uses; keep the maths in a pure function beside the class.

    A rollout holds this rank's prompts. Under dynamic sampling a rank may be left with none (B = 0); its hooks are
    called all the same, since a batch statistic (``functional.across_ranks``) needs every rank. So does the scorer in
    ``on_reward`` and ``on_advantage``, where models may be shared out: it is called on every rank, with ``where_BG``
    saying what for, or on none.
    """

    paper: ClassVar[str]  # URL, printed at start
    refresh_every: int | None = None  # rollout steps between hard copies of the policy to the teacher; None: no teacher
    needs_old_logp: ClassVar[bool] = True  # a hook reads ``rollout.logp_BGT``; False may save a scoring pass
    needs_reference: ClassVar[bool] = False  # a hook scores under ``Weights.REFERENCE``, the frozen initial policy
    without_box: ClassVar[str | None] = None  # what a sample without an evidence box gets; None: boxes are not used

    def uses_box(self, family: str) -> bool:
        """Whether samples of a question family are graded by their evidence box, where ``without_box`` is not None."""
        return True

    def extra_views(self, seed: int) -> Sequence[View]:
        """Views beside ``View()`` that step 0 of a run with this seed asks for, for the lines printed at start: equal
        ones of several methods are computed once. Hints, unknown before a rollout, may be any that are distinct, as
        many as there are at most."""
        return ()

    def sampling_edits(self, step: int) -> Sequence[ImageEdit]:
        """Pictures to sample from at a rollout step: n edits split every group into n equal shares, in this order.

        Edits that draw get seeds of the run, the step and their place. The rollout keeps the pictures as they are:
        scoring and update condition on those. Empty (the default) samples from those, too; at most one method of a
        run may say otherwise, and always with the same n.
        """
        return ()

    def on_rollout(self, rollout: Rollout, record: Record) -> None:
        """Right after grading, before log-probs are known: start what is slow, await it where it is needed."""

    def on_reward(self, rollout: Rollout, scorer: Scorer, record: Record) -> Tensor:
        """[B, G] new reward; ``rollout.reward_BG`` is the current one."""
        return rollout.reward_BG

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        """[B, G, T] new token advantage; 0 outside the mask."""
        return advantage_BGT

    def on_loss(self, micro: Rollout, logp_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor | None:
        """[B, G, T] differentiable token loss, added to the surrogate and reduced like it; None for nothing.

        Called for every micro-batch; the policy moves between optimizer steps, so what needs the weights that sampled
        must be scored in an earlier hook. Its rows here begin at prompt ``micro.start``.
        """
        return None


def reward_chain(chain: Sequence[CreditCallback], rollout: Rollout, scorer: Scorer, record: Record) -> Rollout:
    """The rollout with the reward that the chain leaves. Each result is checked.

    Raises:
        ValueError: a hook returned another shape or a value that is not finite.
    """
    for method in chain:
        reward_BG = method.on_reward(rollout, scorer, record).float()
        check_result(method, "on_reward", reward_BG, rollout.reward_BG.shape)
        rollout = replace(rollout, reward_BG=reward_BG)
    return rollout


def advantage_chain(
    chain: Sequence[CreditCallback], rollout: Rollout, advantage_BG: Tensor, scorer: Scorer, record: Record
) -> Tensor:
    """[B, G, T] token advantage that the chain leaves; the group advantage is spread over the response first.

    Raises:
        ValueError: a hook returned another shape, a value that is not finite, or credit outside the mask.
    """
    advantage_BGT = advantage_BG[..., None] * rollout.mask_BGT
    record.tokens("credit/parent", advantage_BGT)
    for method in chain:
        advantage_BGT = method.on_advantage(rollout, advantage_BGT, scorer, record)
        check_result(method, "on_advantage", advantage_BGT, rollout.mask_BGT.shape)
        if advantage_BGT[~rollout.mask_BGT].any():
            raise ValueError(f"{type(method).__name__}.on_advantage gave credit to tokens outside the response mask")
        record.tokens(f"credit/{type(method).__name__}", advantage_BGT)
    return advantage_BGT


def check_result(method: CreditCallback, hook: str, result: Tensor, shape: torch.Size) -> None:
    """Shape and finiteness of what a hook returned.

    Raises:
        ValueError: it names the method and the hook.
    """
    if result.shape != shape:
        raise ValueError(f"{type(method).__name__}.{hook} returned {tuple(result.shape)}, expected {tuple(shape)}")
    if not torch.isfinite(result).all():
        raise ValueError(f"{type(method).__name__}.{hook} returned values that are not finite")
