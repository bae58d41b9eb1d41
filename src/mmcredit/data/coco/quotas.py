"""How many questions of each family stay, and which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mmcredit.data.coco.question import SPLITS, Question
from mmcredit.functional import stable_seed


def trimmed(questions: Sequence[Question], ratio: Mapping[str, int], seed: int) -> list[Question]:
    """In every split, as many of each family as its share allows; tasks of a family, and answers of a task, take turns.

    A family without a single question leaves the others alone.
    """
    kept: list[Question] = []
    for split in SPLITS:
        families: dict[str, list[Question]] = {}
        for question in questions:
            if question.split == split:
                families.setdefault(question.family, []).append(question)
        unit = min((len(families[f]) / share for f, share in ratio.items() if f in families), default=0.0)
        for family, found in families.items():
            turns = in_turns(found, seed)
            kept += turns[: round(unit * ratio[family])] if family in ratio else turns
    return kept


def in_turns(questions: Sequence[Question], seed: int) -> list[Question]:
    """Drawn order in which tasks take turns, and within a task its answers."""
    drawn = sorted(questions, key=lambda q: stable_seed(seed, q.uid, "quota"))
    answers, tasks = Counter[tuple[str, str]](), Counter[str]()
    ranked = []
    for question in drawn:
        cell = question.task, question.draft.answer
        ranked.append((answers[cell], question))
        answers[cell] += 1
    ordered = []
    for _, question in sorted(ranked, key=lambda pair: pair[0]):  # stable: drawn order among equals
        ordered.append((tasks[question.task], question))
        tasks[question.task] += 1
    return [question for _, question in sorted(ordered, key=lambda pair: pair[0])]
