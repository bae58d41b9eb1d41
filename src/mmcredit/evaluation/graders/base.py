"""Graders that are made of graders, and the one for answers of any kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mmcredit.evaluation.reading import conclusion, named, options_of, said
from mmcredit.evaluation.table import Grade, Question
from mmcredit.reward.verifier import Verifier

MOST = 60  # characters of a response that is its own answer


class Grader(Protocol):
    """Reads a response."""

    def __call__(self, question: Question, response: str) -> Grade:
        """The grade. Never raises because of what a model said."""


@dataclass(frozen=True)
class Free:
    """An answer of any kind, compared by the verifier.

    Args:
        verifier: compares.
        boxed: only what stands in a box or a final-answer line counts; else also ``the answer is ...``, and a response
            of one short line.
    """

    verifier: Verifier
    boxed: bool = False

    def __call__(self, question: Question, response: str) -> Grade:
        text = said(response)
        if text is None and not self.boxed:
            text = self._unboxed(conclusion(response))
        if text is None:
            return Grade(False, None)
        return Grade(self.verifier.verify(question.answer, text, tuple(options_of(question).values())).right, text)

    @staticmethod
    def _unboxed(rest: str) -> str | None:
        return named(rest) or (rest if rest and "\n" not in rest and len(rest) <= MOST else None)


@dataclass(frozen=True)
class ByField:
    """Another grader by the value of a column.

    Args:
        column: which.
        graders: value -> grader.
        otherwise: for other values.
    """

    column: str
    graders: Mapping[str, Grader]
    otherwise: Grader

    def __call__(self, question: Question, response: str) -> Grade:
        grader = self.graders.get(question.meta.get(self.column, ""), self.otherwise)
        return grader(question, response)


@dataclass(frozen=True)
class Mixed:
    """One grader for questions with options, another for those without."""

    choice: Grader
    free: Grader

    def __call__(self, question: Question, response: str) -> Grade:
        return (self.choice if options_of(question) else self.free)(question, response)
