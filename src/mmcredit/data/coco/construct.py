"""From an instances file to questions: what tasks propose, filters admit, and quotas keep.

Nothing depends on the order of the file: every draw is of the seed and of ids.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from mmcredit.data.coco.fitness import Fitness, union
from mmcredit.data.coco.instances import read
from mmcredit.data.coco.pictures import check
from mmcredit.data.coco.question import Context, Draft, Question, Task
from mmcredit.data.coco.quotas import trimmed
from mmcredit.data.coco.scene import Picture, Scene
from mmcredit.data.gate import GateReport
from mmcredit.data.images import ImageError
from mmcredit.data.verdicts import Verdicts
from mmcredit.types import Box, UserError

log = logging.getLogger(__name__)
EVIDENCE = ("primary", "union", "all")


@dataclass(frozen=True)
class Recipe:
    """Which questions are made.

    Args:
        tasks: name -> task, all that there are.
        use: names of those that are asked.
        fitness: bounds of boxes.
        evidence: the proposal box: ``primary`` (of the first object), ``union`` (around all, where that is fit, else
            primary) or ``all`` (primary; methods that can, join the tokens of all boxes).
        ratio: family -> share, in every split; families without a share are kept whole. None keeps everything.
        seed: choice and wording; splits do not depend on it.
        decode: look at all of every picture file, not only at its header (about 10 ms each, once).

    Raises:
        UserError: an unknown task or evidence, no share.
    """

    tasks: Mapping[str, Task]
    use: Sequence[str]
    fitness: Fitness = field(default_factory=Fitness)
    evidence: str = "primary"
    ratio: Mapping[str, int] | None = None
    seed: int = 0
    decode: bool = False

    def __post_init__(self) -> None:
        if self.evidence not in EVIDENCE:
            raise UserError(f"questions.evidence={self.evidence!r} must be one of {', '.join(EVIDENCE)}")
        if unknown := [name for name in self.use if name not in self.tasks]:
            raise UserError(f"questions.use: there is no task {unknown[0]!r}; there are {', '.join(self.tasks)}")
        if not self.use or any(share < 1 for share in (self.ratio or {}).values()):
            raise UserError(f"questions: use={list(self.use)} must name a task, shares of ratio be at least 1")

    @property
    def asked(self) -> list[Task]:
        """The tasks that are used."""
        return [self.tasks[name] for name in self.use]


@dataclass(frozen=True)
class Constructed:
    """The questions in the order of their ids, and what became of everything that was looked at."""

    questions: tuple[Question, ...]
    outcomes: Mapping[str, Counter[str]]  # task -> kept, or why not -> count
    pictures: Counter[str]  # of pictures with annotations: usable, or why not
    gates: tuple[GateReport, ...]  # entries of the file: pictures, annotations


def construct(instances: Path, images: Path | None, recipe: Recipe, on_bad_row: str = "skip") -> Constructed:
    """Make the questions.

    Args:
        images: folder of the pictures; None leaves the files unchecked.

    Raises:
        UserError: see ``read``; a folder without a single picture of the file; no question.
    """
    if images is not None and not images.is_dir():
        raise UserError(f"images={images} is no folder")
    context = Context(read(instances, on_bad_row), recipe.seed, images)
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    found, pictures = _proposed(context, recipe, outcomes)
    if not pictures["usable"]:
        raise UserError(f"images={images} has none of the {pictures.total()} pictures of {instances}: {dict(pictures)}")
    balanced = [q for task in recipe.asked for q in task.balanced([q for q in found if q.task == task.name], context)]
    _count("unbalanced", found, balanced, outcomes)
    kept = balanced if recipe.ratio is None else trimmed(balanced, recipe.ratio, recipe.seed)
    _count("quota", balanced, kept, outcomes)
    _count("kept", kept, [], outcomes)
    if not kept:
        reasons = sum(outcomes.values(), Counter[str]())
        raise UserError(
            f"{instances} gives no question: {', '.join(f'{why} {n}' for why, n in reasons.most_common(8))}"
        )
    ordered = tuple(sorted(kept, key=lambda q: q.uid))
    return Constructed(ordered, {t: +c for t, c in sorted(outcomes.items())}, pictures, context.instances.reports)


def _proposed(
    context: Context, recipe: Recipe, outcomes: dict[str, Counter[str]]
) -> tuple[list[Question], Counter[str]]:
    """What the tasks ask of all pictures, and what became of these."""
    found, pictures = list[Question](), Counter[str]()
    with Verdicts() if recipe.decode else nullcontext() as verdicts:
        for n, scene in enumerate(context.instances.scenes(), 1):
            if n % 10_000 == 0:
                log.info("%d of %d pictures", n, len(context.instances.rows))
            fault = _picture_fault(context.images, scene.picture, verdicts)
            pictures[fault or "usable"] += 1
            if fault is None:
                found += (q for task in recipe.asked for q in _asked(task, scene, context, recipe, outcomes))
    return found, pictures


def _picture_fault(images: Path | None, picture: Picture, verdicts: Verdicts | None) -> str | None:
    try:
        if images is not None:
            check(images, picture, verdicts)
    except ImageError as problem:
        return problem.reason
    return None


def _count(reason: str, before: Sequence[Question], after: Sequence[Question], into: dict[str, Counter[str]]) -> None:
    for task, count in (Counter(q.task for q in before) - Counter(q.task for q in after)).items():
        into[task][reason] += count


def _asked(
    task: Task, scene: Scene, context: Context, recipe: Recipe, outcomes: dict[str, Counter[str]]
) -> Iterable[Question]:
    """A task's questions on a picture."""
    fit: dict[str, tuple[Draft, Box | None]] = {}
    for draft in task.drafts(scene, context):
        if isinstance(draft, str):
            outcomes[task.name][draft] += 1
            continue
        box, fault = _proposal(draft, scene, recipe)
        if fault:
            outcomes[task.name][fault] += 1
        else:
            fit[draft.key] = draft, box
    chosen = task.chosen(scene, [draft for draft, _ in fit.values()], context)
    outcomes[task.name]["surplus"] += len(fit) - len(chosen)
    for draft in chosen:
        uid = f"coco-{scene.picture.id}-{task.name}-{draft.key}"
        yield Question(uid, scene.picture, task.family, task.name, draft, fit[draft.key][1])


def _proposal(draft: Draft, scene: Scene, recipe: Recipe) -> tuple[Box | None, str | None]:
    """The evidence box of a question, or why it has none that is fit."""
    if not draft.things:
        return None, None
    boxes, fitness = draft.boxes, recipe.fitness
    for box in boxes:
        if fault := fitness.unseen(box, scene.picture):
            return None, fault
    if recipe.evidence == "union" and fitness.fault(around := union(boxes), scene.picture, union=True) is None:
        return around, None
    return boxes[0], fitness.fault(boxes[0], scene.picture)


@lru_cache(maxsize=1)
def _remembered(instances: Path, images: Path | None, stamp: int, key: str) -> dict[str, Constructed]:
    return {}


def constructed(instances: Path, images: Path | None, recipe: Recipe, on_bad_row: str = "skip") -> Constructed:
    """``construct``, remembered: the sources of one run share their questions."""
    stamp = instances.stat().st_mtime_ns if instances.is_file() else 0
    memory = _remembered(instances, images, stamp, repr((recipe, on_bad_row)))
    if "made" not in memory:
        memory["made"] = construct(instances, images, recipe, on_bad_row)
    return memory["made"]
