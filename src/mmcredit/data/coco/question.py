"""A question on a picture, its evidence, and the task that asks it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from mmcredit.data.coco.instances import Instances
from mmcredit.data.coco.scene import Picture, Scene, Thing
from mmcredit.functional import stable_rng, stable_seed
from mmcredit.types import Box

SPLITS = ("train", "val", "probe")


def split_of(image_id: int | str) -> str:
    """The split of a picture and of every question on it, as in Evidence-RL's release: a hash of the id, no seed."""
    share = int(hashlib.md5(str(image_id).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
    return "train" if share < 0.8 else "val" if share < 0.9 else "probe"


@dataclass(frozen=True)
class Draft:
    """What a task would ask; the filters of boxes come after it."""

    key: str  # one per picture and task
    template: str
    question: str
    answer: str
    kind: str  # integer | word | list | yes_no
    things: tuple[Thing, ...]  # all that matter for the answer, the primary one first

    @property
    def boxes(self) -> tuple[Box, ...]:
        return tuple(thing.box for thing in self.things if thing.box is not None)


@dataclass(frozen=True)
class Context:
    """What tasks know beside the picture at hand. Draws depend on the seed and ids alone."""

    instances: Instances
    seed: int = 0
    images: Path | None = None

    def draw(self, scene: Scene, *parts: object) -> int:
        """A number of 63 bits."""
        return stable_seed(self.seed, scene.picture.id, *parts)

    def rng(self, scene: Scene, *parts: object) -> Random:
        return stable_rng(self.seed, scene.picture.id, *parts)


@dataclass(frozen=True)
class Question:
    """A question that passed all filters."""

    uid: str
    picture: Picture
    family: str
    task: str
    draft: Draft
    proposal: Box | None  # None: nothing to be seen (presence, no)

    @property
    def split(self) -> str:
        return split_of(self.picture.id)

    @property
    def area_fraction(self) -> float | None:
        """The proposal's share of the picture."""
        if self.proposal is None:
            return None
        return self.proposal.area / (self.picture.width * self.picture.height)

    def row(self, image: str) -> dict[str, Any]:
        """As ``mmcredit.data.sources.jsonl`` reads it, and where it comes from."""
        things, area = self.draft.things, self.area_fraction
        row: dict[str, Any] = {"id": self.uid, "image": image, "question": self.draft.question}
        row |= {"answer": self.draft.answer, "answer_kind": self.draft.kind, "family": self.family}
        row |= {"task_type": self.task, "gt_present": bool(things), "box_format": "xywh_abs"}
        if self.proposal is not None:
            row |= {"boxes": list(map(numbers, self.draft.boxes)), "proposal_bbox": numbers(self.proposal)}
        meta: dict[str, Any] = {"image_id": self.picture.id, "file_name": self.picture.file_name, "split": self.split}
        meta |= {"ann_ids": [t.id for t in things], "cat_ids": list(dict.fromkeys(t.category.id for t in things))}
        meta |= {"template_id": self.draft.template, "area_fraction": None if area is None else round(area, 6)}
        return row | {"meta": meta}


def numbers(box: Box) -> list[float]:
    """x, y, w, h to hundredths of a pixel."""
    return [round(n, 2) for n in (box.x, box.y, box.w, box.h)]


@dataclass(frozen=True)
class Task:
    """A kind of question.

    Args:
        per_image: most questions of a picture, drawn by the seed.
    """

    per_image: int = 2
    name: ClassVar[str]
    family: ClassVar[str]

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        """All questions on a picture; a reason for each that was looked at and cannot be asked."""
        raise NotImplementedError

    def chosen(self, scene: Scene, drafts: Sequence[Draft], context: Context) -> list[Draft]:
        """What stays of the questions on a picture."""
        return sorted(drafts, key=lambda d: context.draw(scene, self.name, d.key, "choice"))[: self.per_image]

    def balanced(self, questions: Sequence[Question], context: Context) -> list[Question]:
        """What stays of the questions of all pictures."""
        return list(questions)
