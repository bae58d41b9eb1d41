"""The first stage: predictions of every question, batch after batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mmcredit.data.datamodule import Source
from mmcredit.evaluation.files import Folder, Prediction
from mmcredit.evaluation.table import Question
from mmcredit.types import Sample, UserError


def generate(
    source: Source, respond: Callable[[Sequence[Sample]], Sequence[Prediction]], folder: Folder, k: int, batch: int
) -> None:
    """Ask for what the folder lacks. A batch is always the same questions, so that a run that was stopped and one that
    was not compute the same.

    Raises:
        UserError: no question, or see ``Folder.add``.
    """
    size = len(source)
    if size == 0:
        raise UserError("the benchmark holds no question")
    for start in range(0, size, batch):
        stop = min(start + batch, size)
        if not folder.missing(start, stop, k):
            continue
        samples = [source[i] for i in range(start, stop)]
        folder.add(start, [question_of(sample) for sample in samples], respond(samples))
        print(f"questions: {stop} of {size}", flush=True)


def question_of(sample: Sample) -> Question:
    """What scoring needs of a sample."""
    family = {"family": sample.family} if sample.family else {}
    return Question(sample.id, sample.question, sample.answer, {**family, **sample.meta})
