"""The second stage: grades and metrics from the predictions on disk; needs neither model nor pictures."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mmcredit.evaluation.fields import Field
from mmcredit.evaluation.files import Folder
from mmcredit.evaluation.graders.base import Grader
from mmcredit.evaluation.metrics import Metric
from mmcredit.evaluation.report import table
from mmcredit.evaluation.statistics import Bootstrap
from mmcredit.evaluation.table import Grade, Question, Table, clusters
from mmcredit.files import write_text
from mmcredit.types import UserError

EXAMPLES = 5  # of responses that scorers grade differently


@dataclass(frozen=True)
class Scorer:
    """A rule for responses and the metrics of a benchmark.

    Args:
        grade: reads a response.
        metrics: in order.
        note: one line on what the rule is.
    """

    grade: Grader
    metrics: Mapping[str, Metric]
    note: str = ""


@dataclass(frozen=True)
class Benchmark:
    """How a benchmark is scored.

    Args:
        name: of the benchmark, as VLMEvalKit calls its file where it has one.
        scorers: ``fixed`` (right) and, where the official kit does something else, ``official``.
        fields: columns that are made before scoring.
        cluster: columns of the questions that are drawn together by the bootstrap; empty: each question by itself.
        headline: the metric that is quoted; null: the first.
    """

    name: str
    scorers: Mapping[str, Scorer]
    fields: Mapping[str, Field] = field(default_factory=dict)
    cluster: Sequence[str] = ()
    headline: str | None = None

    def check(self, scorer: str) -> None:
        """Raises:
        UserError: no such scorer.
        """
        if scorer not in self.scorers:
            raise UserError(f"scorer={scorer} must be one of {', '.join(self.scorers)} for {self.name}")


def score(folder: Folder, benchmark: Benchmark, scorer: str, k: int, bootstrap: Bootstrap) -> dict[str, Any]:
    """Grade all predictions by every scorer; writes ``graded.jsonl``, ``scores.json`` and ``scores.md``.

    Args:
        scorer: the one whose headline counts.
        k: responses of a question that are scored, the first ones.

    Raises:
        UserError: unknown scorer, or predictions that are not there yet.
    """
    benchmark.check(scorer)
    size = folder.settings.get("questions", 0)
    if not size or folder.missing(0, size, k):
        raise UserError(
            f"{folder.path} holds predictions of {len(folder.predictions)} responses, {size * k} are needed "
            f"(k={k}, {size or 'no'} questions): run stage=generate with out={folder.path}"
        )
    questions = tuple(folder.questions)
    for make in benchmark.fields.values():
        questions = tuple(make(question) for question in questions)
    cluster_Q = clusters(questions, benchmark.cluster)
    graded = {name: _graded(folder, questions, part, k) for name, part in benchmark.scorers.items()}
    metrics = {}
    for name, part in benchmark.scorers.items():
        scored = Table(questions, graded[name], cluster_Q)
        ratios = [ratio for metric in part.metrics.values() for ratio in metric(scored)]
        metrics[name] = {key: asdict(value) for key, value in bootstrap(ratios).items()}
    predictions = [folder.predictions[q.id, n] for q in questions for n in range(k)]
    report = {
        "benchmark": benchmark.name,
        "questions": size,
        "clusters": int(cluster_Q.max()) + 1,
        "k": k,
        "scorer": scorer,
        "headline": benchmark.headline or next(iter(metrics[scorer])),
        "metrics": metrics,
        "notes": {name: part.note for name, part in benchmark.scorers.items()},
        "unanswered": {name: _share(grade.answer is None for row in rows for grade in row)
                       for name, rows in graded.items()},
        "unfinished": _share(not p.finished for p in predictions),
        "tokens": sum(p.tokens for p in predictions) / len(predictions),
        "interval": {"method": "cluster bootstrap, percentile", **asdict(bootstrap)},
        "different": _different(graded, questions),
        "settings": folder.settings,
    }  # fmt: skip
    _write(folder, questions, graded, report)
    return report


def _graded(folder: Folder, questions: Sequence[Question], part: Scorer, k: int) -> tuple[tuple[Grade, ...], ...]:
    return tuple(
        tuple(part.grade(q, folder.predictions[q.id, n].prediction) for n in range(k)) for q in questions
    )  # fmt: skip


def _different(graded: Mapping[str, tuple[tuple[Grade, ...], ...]], questions: Sequence[Question]) -> dict[str, Any]:
    """Responses whose correctness depends on the scorer."""
    places = [
        (q, n)
        for q, question in enumerate(questions)
        for n in range(len(next(iter(graded.values()))[q]))
        if len({rows[q][n].correct for rows in graded.values()}) > 1
    ]
    examples = [
        {"id": questions[q].id, "k": n, "gold": questions[q].answer[:100]}
        | {name: {"answer": (rows[q][n].answer or "")[:100], "correct": rows[q][n].correct}
           for name, rows in graded.items()}
        for q, n in places[:EXAMPLES]
    ]  # fmt: skip
    return {"responses": len(places), "examples": examples}


def _share(values: Any) -> float:
    found = list(values)
    return sum(found) / len(found)


def _write(
    folder: Folder,
    questions: Sequence[Question],
    graded: Mapping[str, tuple[tuple[Grade, ...], ...]],
    report: Mapping[str, Any],
) -> None:
    lines = [
        {"id": question.id, "k": n} | {name: asdict(rows[q][n]) for name, rows in graded.items()}
        for q, question in enumerate(questions)
        for n in range(report["k"])
    ]
    write_text(folder.path / "graded.jsonl", "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    write_text(folder.path / "scores.json", json.dumps(_plain(report), indent=1, ensure_ascii=False) + "\n")
    write_text(folder.path / "scores.md", table(report))


def _plain(value: Any) -> Any:
    """What strict JSON can hold: null for nan."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value
