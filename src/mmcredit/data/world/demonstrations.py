"""Responses to questions whose scene is known, and demonstrations for the warm start, with planted faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mmcredit.data.world.grammar import phrase, unsupported
from mmcredit.data.world.questions import Question
from mmcredit.data.world.scene import CORNERS, corner_of, reading_order
from mmcredit.functional import stable_rng
from mmcredit.types import Sample


def think(q: Question, answer: str) -> tuple[list[str], str]:
    """What is seen, one claim each, then the boxed answer."""
    claims = [phrase(o.color, o.shape, corner_of(o.box)) for o in q.relevant] or [f"no {q.focus}"]
    return claims, f"\\boxed{{{answer}}}"


def short_evidence(q: Question, answer: str) -> tuple[list[str], str]:
    """What is looked at, without the answer, then the answer."""
    first = q.relevant[0] if q.relevant else None
    named = {
        "counting": lambda o: phrase(o.color, o.shape, corner_of(o.box)),
        "attribute": lambda o: f"{q.focus} {corner_of(o.box)}",
    }.get(q.family)
    return [named(first) if named and first else q.focus], f"\nFinal answer: {answer}"


def notes(q: Question) -> dict[str, str]:
    """What judges are given: every object in words, the facts that matter (one a line), and a ``think`` response to
    compare with. That one is true but leaves the last fact out: nothing is better than a true and complete one, which
    is the ``solution``."""
    claims, end = think(q, q.answer)
    seen = [f"{o.size} {phrase(o.color, o.shape, corner_of(o.box))} ." for o in reading_order(q.objects)]
    return {
        "reference": " . ".join([*claims[:-1], end]),
        "pseudo_ground_truth": " ".join(seen),
        "key_facts": "\n".join(claims),
        "solution": " . ".join([*claims, end]),
    }


class Questions(Protocol):
    """What demonstrations are written for: a source that knows what lies behind its samples."""

    seed: int
    colors: Sequence[str]  # that objects can have

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...

    def question(self, index: int) -> Question: ...


Writer = Callable[[Question, str], tuple[list[str], str]]


@dataclass(frozen=True)
class Demonstrations:
    """Question and response pairs for supervised training, with planted faults.

    Args:
        world: the source of questions: the embedded world, or another that knows all objects.
        write: ``think`` or ``short_evidence``, one of this module's writers.
        shortcut: share of responses that give the prior answer whatever the picture shows.
        slip: share that give a random wrong answer.
        false_claim: share of responses in which one claim is made false.
    """

    world: Questions
    write: Writer
    shortcut: float = 0.0
    slip: float = 0.0
    false_claim: float = 0.0

    def response(self, index: int) -> str:
        """The (possibly faulty) response to question ``index``."""
        q = self.world.question(index)
        rng = stable_rng("demonstration", self.world.seed, self.write.__name__, index)
        draw, answer = rng.random(), q.answer
        if draw < self.shortcut:
            answer = q.prior_answer
        elif draw < self.shortcut + self.slip:
            answer = rng.choice([o for o in q.options if o != q.answer])
        claims, end = self.write(q, answer)
        if rng.random() < self.false_claim:
            words = (self.world.colors, CORNERS)
            where, color_first = rng.randrange(len(claims)), rng.random() < 0.5
            claims = _falsify(claims, q, where, words if color_first else words[::-1])
        if self.write is short_evidence:
            return f"Evidence: {claims[0]}{end}"
        return " . ".join(claims) + f" . {end}"


def _falsify(claims: list[str], q: Question, where: int, kinds: Sequence[Sequence[str]]) -> list[str]:
    """The claims with one of them made false by another word of a kind; unchanged if no change makes it false."""
    claim = claims[where]
    for words in kinds:
        present = next((w for w in words if w in claim), "")
        for word in words if present else ():
            changed = [*claims[:where], claim.replace(present, word), *claims[where + 1 :]]
            if word != present and unsupported(" . ".join(changed), q.objects):
                return changed
    return claims
