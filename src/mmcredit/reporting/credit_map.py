"""What a credit map shows: prompts, their boxes, and the credit of each response's tokens under chains of methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from PIL.Image import Image

from mmcredit.credit import CreditCallback
from mmcredit.module import StepReport
from mmcredit.reporting.boxes import MappedBox, region_boxes, routed_boxes
from mmcredit.reporting.visible_text import visible
from mmcredit.scoring.views import View
from mmcredit.types import Sample, Span

END = "∎"  # shown for the end token, and for tokens without characters of their own
Contradicts = Callable[[str, Sample], bool | None]


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is shown."""

    text: str
    credit: float  # advantage after the whole chain
    numbers: tuple[tuple[str, float], ...]  # what the methods recorded of it, in their order
    claim: str = ""  # routed | supported | contradicted, or "" outside routed claims


@dataclass(frozen=True, slots=True)
class Column:
    """A response under one chain of methods."""

    tokens: tuple[Token, ...]
    numbers: tuple[tuple[str, float], ...]  # of the whole response: rewards, margins, ...


@dataclass(frozen=True, slots=True)
class Row:
    """A response under every chain, in the map's order."""

    answer: str | None
    correct: bool
    false_claim: bool | None  # whether it carries a claim that the picture contradicts; None where nobody knows
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """A prompt."""

    id: str
    question: str
    gold: str
    family: str
    pictures: tuple[Image, ...]  # boxes are on the first one
    boxes: tuple[MappedBox, ...]
    rows: tuple[Row, ...]

    @property
    def scale(self) -> float:
        """The largest absolute credit, 1 where there is none: the strongest colour of every column of the prompt."""
        tokens = (token for row in self.rows for column in row.columns for token in column.tokens)
        return max((abs(token.credit) for token in tokens), default=0.0) or 1.0


@dataclass(frozen=True, slots=True)
class CreditMap:
    """Panels, and the names of the chains that their columns stand for."""

    title: str
    chains: tuple[str, ...]
    panels: tuple[Panel, ...]


def chain_name(chain: Iterable[CreditCallback]) -> str:
    """``VPPO > PACG``, in order of application."""
    return " > ".join(type(method).__name__ for method in chain) or "no method"


def worth_showing(reports: Sequence[StepReport]) -> list[int]:
    """Prompts, those to which the most chains give any credit first, else in order."""
    silent_B = [
        sum(not report.advantage_BGT[b].any() for report in reports) for b in range(reports[0].rollout.shape[0])
    ]
    return sorted(range(len(silent_B)), key=silent_B.__getitem__)


def credit_map(
    title: str,
    reports: Mapping[str, StepReport],
    places: Sequence[int],
    responses: int,
    views: Iterable[View],
    contradicts: Contradicts,
) -> CreditMap:
    """The map of some prompts.

    Args:
        reports: by the chain's name; all of the same responses, with their numbers of tokens kept.
        places: prompts of the rollout to show.
        responses: responses of each to show: the first ones of the group, those of other texts before repetitions.
        views: what the chains score; their regions are drawn.
        contradicts: judges claims.
    """
    views = list(views)
    panels = [_panel(list(reports.values()), b, responses, views, contradicts) for b in places]
    return CreditMap(title, tuple(reports), tuple(panels))


def _panel(reports: list[StepReport], b: int, responses: int, views: list[View], contradicts: Contradicts) -> Panel:
    rollout = reports[0].rollout
    sample, texts = rollout.prompts.samples[b], rollout.responses.texts[b]
    shown = sorted(sorted(range(len(texts)), key=lambda g: texts.index(texts[g]) != g)[:responses])
    rows = tuple(
        Row(
            rollout.grades.answers[b][g],
            bool(rollout.grades.correct_BG[b, g]),
            contradicts(texts[g], sample),
            tuple(column(report, b, g, contradicts) for report in reports),
        )
        for g in shown
    )
    routed = list(dict.fromkeys(text for report in reports for g in shown for text in claims(report, b, g).values()))
    boxes = [*region_boxes(sample, views), *routed_boxes(sample, routed)]
    return Panel(sample.id, sample.question, sample.answer, sample.family, sample.images, tuple(boxes), rows)


def column(report: StepReport, b: int, g: int, contradicts: Contradicts) -> Column:
    """One response of one report."""
    rollout, measured = report.rollout, report.record.per_token or {}
    sample, verdicts = rollout.prompts.samples[b], dict[int, str]()
    for (start, end), text in claims(report, b, g).items():
        verdict = {None: "routed", True: "contradicted", False: "supported"}[contradicts(text, sample)]
        verdicts |= dict.fromkeys(range(start, end), verdict)
    numbers = {key: values[b, g].tolist() for key, values in measured.items() if not key.endswith("/claim")}
    credit, texts = report.advantage_BGT[b, g].tolist(), pieces(rollout.responses.texts[b][g], _spans(report, b, g))
    tokens = (
        Token(text, credit[t], tuple((key, values[t]) for key, values in numbers.items()), verdicts.get(t, ""))
        for t, text in enumerate(texts)
    )
    return Column(tuple(tokens), tuple((key, float(v[b, g])) for key, v in report.record.per_response.items()))


def claims(report: StepReport, b: int, g: int) -> dict[Span, str]:
    """Text of each routed claim of a response, by its half-open interval of tokens: runs of claimed tokens."""
    text, spans, found = report.rollout.responses.texts[b][g], _spans(report, b, g), dict[Span, str]()
    for key, values in (report.record.per_token or {}).items():
        flags = values[b, g, : len(spans)].bool().tolist() if key.endswith("/claim") else []
        for claimed, run in groupby(range(len(flags)), flags.__getitem__):
            places = list(run)
            if claimed:
                found[places[0], places[-1] + 1] = text[spans[places[0]][0] : spans[places[-1]][1]].strip()
    return found


def _spans(report: StepReport, b: int, g: int) -> tuple[Span, ...]:
    return report.rollout.responses.spans[b][g]


def pieces(text: str, spans: Sequence[Span]) -> list[str]:
    """What to show for each token: its characters that no earlier token has shown, made visible; ``END`` for none."""
    shown, parts = 0, list[str]()
    for start, end in spans:
        parts.append(visible(text[max(start, shown) : end]) or END)
        shown = max(shown, end)
    return parts
