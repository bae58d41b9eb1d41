"""The embedded world as a data source, and demonstrations for the warm start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mmcredit.data.sampling import Info
from mmcredit.data.world.grammar import phrase, unsupported
from mmcredit.data.world.questions import FAMILIES, SPLITS, Draw, Question
from mmcredit.data.world.scene import COLORS, CORNERS, corner_of, reading_order, render
from mmcredit.functional import stable_rng, stable_seed
from mmcredit.types import Sample, UserError


class World:
    """Map-style source of samples. Sample i is a pure function of (seed, split, i).

    Args:
        split: ``train`` (answers follow the prior), ``val`` (balanced) or ``counter_prior`` (never the prior answer).
        size: number of samples.
        seed: another seed is another world sample, of the same law.
        prior: share of training questions whose true answer is the prior one, 0..1.
        families: question families, taken in turn.

    Raises:
        UserError: unknown split or family, prior outside 0..1.
    """

    generated = True  # computed, not read: the prompt gate probes some

    def __init__(
        self,
        split: str,
        size: int,
        seed: int = 0,
        prior: float = 0.6,
        families: tuple[str, ...] = tuple(FAMILIES),
    ) -> None:
        if split not in SPLITS:
            raise UserError(f"data split {split!r} does not exist; the world has {', '.join(SPLITS)}")
        if unknown := [f for f in families if f not in FAMILIES]:
            raise UserError(f"question family {unknown[0]!r} does not exist; the world has {', '.join(FAMILIES)}")
        if not 0 <= prior <= 1:
            raise UserError(f"data.prior={prior} must lie in 0..1")
        self.split, self.size, self.seed, self.prior, self.families = split, size, seed, prior, tuple(families)

    def __len__(self) -> int:
        return self.size

    def question(self, index: int) -> Question:
        """The question behind sample ``index``."""
        rng = stable_rng("world", self.seed, self.split, self.prior, index)
        family = self.families[index % len(self.families)]
        return FAMILIES[family](Draw(rng, SPLITS[self.split](self.prior)))

    def info(self, index: int) -> Info:
        """What samplers ask, without a picture."""
        return Info(self.families[index % len(self.families)])

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self.size:
            raise IndexError(f"sample {index} of a world of {self.size}")
        q = self.question(index)
        sample_id = f"world-{self.seed}-{self.split}-{index}"
        boxes = tuple(o.box for o in q.relevant)
        return Sample(
            id=sample_id,
            images=(render(q.objects, stable_seed(sample_id, "texture")),),
            question=q.text,
            answer=q.answer,
            family=q.family,
            boxes=boxes,
            proposal_bbox=boxes[0] if boxes else None,
            objects=q.objects,
            meta={"prior_answer": q.prior_answer, **notes(q)},
        )


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


@dataclass(frozen=True)
class Demonstrations:
    """Question and response pairs for supervised training, with planted faults.

    Args:
        world: the source of questions.
        write: ``think`` or ``short_evidence``, one of this module's writers.
        shortcut: share of responses that give the prior answer whatever the picture shows.
        slip: share that give a random wrong answer.
        false_claim: share of responses in which one claim is made false.
    """

    world: World
    write: Callable[[Question, str], tuple[list[str], str]]
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
            claims = _falsify(claims, q, rng.randrange(len(claims)), rng.random() < 0.5)
        if self.write is short_evidence:
            return f"Evidence: {claims[0]}{end}"
        return " . ".join(claims) + f" . {end}"


def _falsify(claims: list[str], q: Question, where: int, color_first: bool) -> list[str]:
    """The claims with one of them made false by another colour or corner; unchanged if no change makes it false."""
    claim = claims[where]
    for words in (COLORS, CORNERS) if color_first else (CORNERS, COLORS):
        present = next((w for w in words if w in claim), "")
        for word in words if present else ():
            changed = [*claims[:where], claim.replace(present, word), *claims[where + 1 :]]
            if word != present and unsupported(" . ".join(changed), q.objects):
                return changed
    return claims
