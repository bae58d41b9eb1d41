"""Drawn scenes as data sources, the embedded world among them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from PIL.Image import Image

from mmcredit.data.source import Info
from mmcredit.data.world.demonstrations import notes
from mmcredit.data.world.questions import FAMILIES, SPLITS, Draw, Question
from mmcredit.data.world.scene import render
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
    generated = True  # computed, not read: the prompt gate probes some

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

    def info(self, index: int) -> Info:
        """What samplers ask, without a picture."""
        return Info(self.families[index % len(self.families)])

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
