"""Scenes as data sources, the embedded world among them, and demonstrations for the warm start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from PIL.Image import Image

from mmcredit.data.world.grammar import phrase, unsupported
from mmcredit.data.world.questions import FAMILIES, SPLITS, Draw, Question
from mmcredit.data.world.scene import CORNERS, corner_of, reading_order, render
from mmcredit.data.world.vocabulary import WORLD
from mmcredit.functional import stable_rng, stable_seed
from mmcredit.types import Sample, SceneObject, UserError


class Scenes(ABC):
    """Map-style source of samples whose scenes are drawn. Sample i is a pure function of (seed, split, i).

    Args:
        split: one of ``splits``.
        size: number of samples.
        seed: another seed is another sample of the same law.
        families: question families, taken in turn.

    Raises:
        UserError: unknown split or family.
    """

    name: str
    splits: Sequence[str]
    colors: Sequence[str] = WORLD.colors

    def __init__(self, split: str, size: int, seed: int, families: Sequence[str]) -> None:
        if split not in self.splits:
            raise UserError(f"data split {split!r} does not exist; the {self.name} has {', '.join(self.splits)}")
        if unknown := [f for f in families if f not in FAMILIES]:
            raise UserError(f"question family {unknown[0]!r} does not exist; the {self.name} has {', '.join(FAMILIES)}")
        self.split, self.size, self.seed, self.families = split, size, seed, tuple(families)

    @abstractmethod
    def draw(self, index: int) -> Draw:
        """What draws question ``index``."""

    @abstractmethod
    def render(self, objects: Sequence[SceneObject], seed: int) -> Image:
        """The picture of a scene."""

    def __len__(self) -> int:
        return self.size

    def question(self, index: int) -> Question:
        """The question behind sample ``index``."""
        return FAMILIES[self.families[index % len(self.families)]](self.draw(index))

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < self.size:
            raise IndexError(f"sample {index} of a {self.name} of {self.size}")
        q, sample_id = self.question(index), f"{self.name}-{self.seed}-{self.split}-{index}"
        return as_sample(q, sample_id, self.render(q.objects, stable_seed(sample_id, "texture")))


class World(Scenes):
    """The embedded world.

    Args:
        split: ``train`` (answers follow the prior), ``val`` (balanced) or ``counter_prior`` (never the prior answer).
        size, seed, families: see ``Scenes``.
        prior: share of training questions whose true answer is the prior one, 0..1.

    Raises:
        UserError: unknown split or family, prior outside 0..1.
    """

    name, splits = "world", tuple(SPLITS)

    def __init__(
        self,
        split: str,
        size: int,
        seed: int = 0,
        prior: float = 0.6,
        families: Sequence[str] = tuple(FAMILIES),
    ) -> None:
        super().__init__(split, size, seed, families)
        if not 0 <= prior <= 1:
            raise UserError(f"data.prior={prior} must lie in 0..1")
        self.prior = prior

    def draw(self, index: int) -> Draw:
        """See ``Scenes``."""
        return Draw(stable_rng("world", self.seed, self.split, self.prior, index), SPLITS[self.split](self.prior))

    def render(self, objects: Sequence[SceneObject], seed: int) -> Image:
        """See ``Scenes``."""
        return render(objects, seed)


def as_sample(q: Question, sample_id: str, picture: Image) -> Sample:
    """A question about a picture."""
    boxes = tuple(o.box for o in q.relevant)
    return Sample(
        id=sample_id,
        images=(picture,),
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
