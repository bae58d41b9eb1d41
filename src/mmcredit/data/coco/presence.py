"""Is it there? As many yes as no of every category; to be measured with, not to be trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mmcredit.data.coco.counting import by_size
from mmcredit.data.coco.instances import Instances
from mmcredit.data.coco.names import is_plural, some
from mmcredit.data.coco.question import SPLITS, Context, Draft, Question, Task, split_of
from mmcredit.data.coco.scene import Category, Scene, Thing
from mmcredit.functional import stable_seed
from mmcredit.types import UserError

Law = Callable[[Instances, str, Sequence[str]], float]


def random(instances: Instances, absent: str, present: Sequence[str]) -> float:
    """Any absent category."""
    return 0.0


def popular(instances: Instances, absent: str, present: Sequence[str]) -> float:
    """Those that most pictures have."""
    return instances.shown[absent]


def cooccurring(instances: Instances, absent: str, present: Sequence[str]) -> float:
    """Those that most often go with what the picture has."""
    pairs = ((min(absent, other), max(absent, other)) for other in present)
    return sum(instances.together[pair] for pair in pairs)


@dataclass(frozen=True)
class Presence(Task):
    """Is there a dog in the image?

    Args:
        per_image: most questions with either answer on a picture.
        law: which absent categories come first: ``random``, ``popular`` or ``cooccurring``.
        splits: where these questions are asked.

    Raises:
        UserError: a split that does not exist.
    """

    name: ClassVar[str] = "existence"
    family: ClassVar[str] = "presence"
    law: Law = cooccurring
    splits: Sequence[str] = ("probe",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "splits", tuple(self.splits))
        if unknown := set(self.splits) - set(SPLITS):
            raise UserError(f"presence: split {sorted(unknown)[0]!r} does not exist; there are {', '.join(SPLITS)}")

    def drafts(self, scene: Scene, context: Context) -> Iterator[Draft | str]:
        if split_of(scene.picture.id) not in self.splits:
            return
        present = sorted({str(one.category.id) for one in scene.things})
        for group in scene.groups:
            if seen := [one for one in group if one.fault is None]:
                yield self._draft(group[0].category, "yes", by_size(seen))
            else:
                yield group[0].fault or "crowd"
        absent = [key for key in context.instances.categories if key not in present]
        scores = {key: self.law(context.instances, key, present) for key in absent}
        absent.sort(key=lambda key: (-scores[key], context.draw(scene, self.name, "no", key)))
        for key in absent[: self.per_image]:
            yield self._draft(context.instances.categories[key], "no", ())

    def _draft(self, category: Category, answer: str, things: tuple[Thing, ...]) -> Draft:
        there = "Are there" if is_plural(category.name) else "Is there"
        question = f"{there} {some(category.name)} in the image?"
        return Draft(f"{category.id}-{answer}", "is_there", question, answer, "yes_no", things)

    def chosen(self, scene: Scene, drafts: Sequence[Draft], context: Context) -> list[Draft]:
        return [
            draft
            for answer in ("yes", "no")
            for draft in super(Presence, self).chosen(scene, [d for d in drafts if d.answer == answer], context)
        ]

    def balanced(self, questions: Sequence[Question], context: Context) -> list[Question]:
        """As many yes as no of every category, in every split."""
        cells: dict[tuple[str, str], dict[str, list[Question]]] = {}
        for question in sorted(questions, key=lambda q: stable_seed(context.seed, q.uid, "balance")):
            cell = cells.setdefault((question.split, question.draft.question), {"yes": [], "no": []})
            cell[question.draft.answer].append(question)
        return [q for cell in cells.values() for found in cell.values() for q in found[: min(map(len, cell.values()))]]
