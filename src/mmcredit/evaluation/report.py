"""Scores as a Markdown table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MANY = 0.5  # share of responses without an answer above which the template is in doubt


def table(report: Mapping[str, Any]) -> str:
    """All metrics of all scorers; a metric in percent with its interval and the deviation over repetitions."""
    scorers = list(report["metrics"])
    names = list(dict.fromkeys(name for metrics in report["metrics"].values() for name in metrics))
    level = report["interval"]["level"]
    lines = [
        f"# {report['benchmark']}",
        "",
        f"{report['questions']} questions, {report['k']} responses each; headline: {report['headline']} "
        f"({report['scorer']}). Percent; [{level:.0%} interval from {report['interval']['replicates']} resamples of "
        f"{report['clusters']} clusters of questions]; ± standard deviation over the {report['k']} repetitions.",
        "",
        f"| metric | {' | '.join(scorers)} |",
        f"|---|{'---|' * len(scorers)}",
    ]
    lines += [f"| {_cell(n)} | {' | '.join(_number(report['metrics'][s].get(n)) for s in scorers)} |" for n in names]
    unread = ", ".join(f"{name} {value:.1%}" for name, value in report["unanswered"].items())
    lines += ["", f"Without an answer: {unread}. Cut off by the length limit: {report['unfinished']:.1%}."]
    if report["unanswered"][report["scorer"]] > MANY:
        lines += ["Most responses have no answer. Was the model trained with another template (template=...)?"]
    lines += [f"{name}: {note}" for name, note in report["notes"].items() if note]
    if len(scorers) > 1:
        lines += ["", *_differences(report["different"], scorers)]
    return "\n".join(lines) + "\n"


def _number(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None or estimate["value"] != estimate["value"]:
        return "-"
    spread = "" if estimate["std"] is None else f" ± {100 * estimate['std']:.2f}"
    return f"{100 * estimate['value']:.2f} [{100 * estimate['low']:.2f}, {100 * estimate['high']:.2f}]{spread}"


def _differences(different: Mapping[str, Any], scorers: list[str]) -> list[str]:
    lines = [f"{different['responses']} responses are graded differently."]
    if different["examples"]:
        lines += ["", f"| question | k | gold | {' | '.join(scorers)} |", f"|---|---|---|{'---|' * len(scorers)}"]
    for row in different["examples"]:
        said = [f"{'right' if row[name]['correct'] else 'wrong'}: {_cell(row[name]['answer'])}" for name in scorers]
        lines.append(f"| {_cell(row['id'])} | {row['k']} | {_cell(row['gold'])} | {' | '.join(said)} |")
    return lines


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
