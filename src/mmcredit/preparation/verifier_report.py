"""Where verifiers disagree on a file of gold answers and responses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from mmcredit.data.answers import answer_kind, options
from mmcredit.data.gate import Gate
from mmcredit.data.sources.fields import listed, parse, text
from mmcredit.files import write_json
from mmcredit.preparation.files import Row, write_rows
from mmcredit.reward.verifier import Verifier
from mmcredit.types import Sample, Span, UserError

THREADS = 4


def run(
    path: str | None,
    out: str,
    verifiers: Mapping[str, Verifier],
    extract: Callable[[str], Span | None],
    on_bad_row: str = "raise",
    most: int = 50,
) -> dict[str, Any]:
    """Every response graded by every verifier. Writes ``verifier_report.json`` and ``.md``, and
    ``disagreements.jsonl``; prints the table; returns the report.

    Args:
        path: a JSON-lines file with ``gold`` (or ``answer``), ``response``, and perhaps ``question`` and ``choices``.
        out: folder of the reports.
        verifiers: by name; the first is the one that the others are compared with.
        extract: finds the final answer of a response.
        on_bad_row: ``raise`` or ``skip``.
        most: disagreements listed in the Markdown file.

    Raises:
        UserError: no such file, no rows, or a row without a gold answer or response.
    """
    if path is None or not Path(path).expanduser().is_file():
        raise UserError(f"path={path} is no file: type path=/path/to/responses.jsonl (gold and response in each line)")
    rows = _rows(Path(path).expanduser(), extract, on_bad_row)
    if not rows:
        raise UserError(f"{path} has no rows")
    with ThreadPoolExecutor(THREADS) as threads:
        for name, verifier in verifiers.items():
            outcomes = threads.map(partial(_outcome, verifier), rows)
            for row, outcome in zip(rows, outcomes, strict=True):
                row["outcomes"][name] = outcome
    report = summary(rows, list(verifiers))
    folder = Path(out).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    differing = [row for row in rows if len({outcome == "right" for outcome in row["outcomes"].values()}) > 1]
    write_rows(folder / "disagreements.jsonl", differing)
    write_json(report, folder / "verifier_report.json")
    table = "\n".join(_table(report))
    markdown = folder / "verifier_report.md.new"
    markdown.write_text(
        "\n".join([f"# Verifiers on {Path(path).name}", "", table, *_listed(differing[:most])]), "utf-8"
    )
    markdown.replace(folder / "verifier_report.md")
    print(f"{table}\n\n{len(differing)} disagreements: {folder / 'disagreements.jsonl'}")
    return report


def _rows(path: Path, extract: Callable[[str], Span | None], on_bad_row: str) -> list[Row]:
    def made(number: int, line: bytes) -> Row:
        data = parse(line)
        gold, response = text(data, "gold", "answer"), str(data.get("response") or "")
        choices = "\n".join(map(str, listed(data.get("choices"))))
        meta = {"choices": choices} if choices else {}
        sample = Sample("", (), str(data.get("question") or data.get("problem") or ""), gold, meta=meta)
        span = extract(response)
        answer = None if span is None else response[slice(*span)]
        return {"line": number, "gold": gold, "answer": answer, "kind": str(answer_kind(gold)),
                "choices": options(sample), "outcomes": {}}  # fmt: skip

    lines = [(n, line) for n, line in enumerate(path.read_bytes().splitlines(), 1) if line.strip()]
    return list(Gate(str(path), on_bad_row).admit((n, partial(made, n, line)) for n, line in lines))


def _outcome(verifier: Verifier, row: Row) -> str:
    if row["answer"] is None:
        return "unparsable"
    return str(verifier.verify(row["gold"], row["answer"], row["choices"]).outcome)


def summary(rows: Sequence[Row], names: Sequence[str]) -> dict[str, Any]:
    """Outcomes of each verifier, and how often each two disagree, by kind of gold answer."""
    outcomes = {name: dict(Counter(row["outcomes"][name] for row in rows)) for name in names}
    pairs = {}
    for one, other in combinations(names, 2):
        found: dict[str, Counter[str]] = {}
        for row in rows:
            first, second = (row["outcomes"][name] == "right" for name in (one, other))
            if first != second:
                found.setdefault(row["kind"], Counter())[one if first else other] += 1
        pairs[f"{one} / {other}"] = {kind: dict(counts) for kind, counts in sorted(found.items())}
    unanswered = sum(row["answer"] is None for row in rows)
    return {"rows": len(rows), "without_answer": unanswered, "outcomes": outcomes, "right_only_for": pairs}


def _table(report: Mapping[str, Any]) -> list[str]:
    """In Markdown, readable on a screen, too."""
    columns = ("right", "wrong", "unparsable", "timed_out")
    lines = [f"{report['rows']} rows, {report['without_answer']} without an answer", ""]
    lines += [f"| {'verifier':12s} | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for name, counts in report["outcomes"].items():
        cells = (f"{counts.get(column, 0):>{len(column)}d}" for column in columns)
        lines.append(f"| {name:12s} | {' | '.join(cells)} |")
    lines += ["", "| disagree | kind of gold answer | right only for |", "|---|---|---|"]
    for pair, kinds in report["right_only_for"].items():
        for kind, counts in kinds.items():
            lines.append(f"| {pair} | {kind} | {', '.join(f'{name}: {n}' for name, n in counts.items())} |")
    return lines


def _listed(rows: Sequence[Row]) -> list[str]:
    lines = ["", "| line | gold | answer | outcomes |", "|---|---|---|---|"]
    for row in rows:
        said = ", ".join(f"{name}: {outcome}" for name, outcome in row["outcomes"].items())
        lines.append(f"| {row['line']} | {_cell(row['gold'])} | {_cell(row['answer'] or '')} | {said} |")
    return [*lines, ""]


def _cell(content: str) -> str:
    return "`" + " ".join(content.split()).replace("|", "\\|").replace("`", "'") + "`"
