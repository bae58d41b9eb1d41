"""Claims of a response: what a router says of each span, and where the span stands.

PACG, https://arxiv.org/abs/2609.36572v3, section 4.1 and appendix I.1. The paper's ``evidence_status`` and
``analysis_category`` belong to its offline analysis: they are not kept, so that training cannot read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mmcredit.types import Span

MAX_SPANS = 30  # a response
Group = Literal["direct_vef", "derived_vef", "non_vef_control", "other"]
Assertion = Literal["asserted", "hypothetical", "uncertain", "quoted_option"]


@dataclass(frozen=True, slots=True)
class ClaimSpan:
    """A span of a response and its evidential role (VEF: visual evidence-functional).

    Example: ``ClaimSpan("the parabola opens downwards", "direct_vef", True, "direct", True, False, "asserted", False)``
    """

    text: str  # exact substring of the response
    span_group: Group
    is_vef: bool
    vef_role: str  # direct | derived | none
    requires_current_image: bool
    contains_inference: bool
    assertion_status: Assertion
    evidence_in_question_text: bool

    @property
    def eligible(self) -> bool:
        """Whether this is a direct visual claim, which PACG routes; right or wrong."""
        return (
            self.span_group == "direct_vef"
            and self.is_vef
            and self.vef_role == "direct"
            and self.requires_current_image
            and not self.contains_inference
            and self.assertion_status == "asserted"
            and not self.evidence_in_question_text
        )

    @property
    def visual(self) -> bool:
        """Whether its tokens depend on the picture, directly or not: they are no reference for the others."""
        return self.span_group in ("direct_vef", "derived_vef")


@dataclass(frozen=True, slots=True)
class Routing:
    """The spans of one response. No spans is a valid answer; a ``failure`` is none.

    Example: ``Routing(((span, (0, 14)),), dropped=1)``, ``Routing(failure="timeout")``
    """

    spans: tuple[tuple[ClaimSpan, Span], ...] = ()  # with half-open character intervals, at most ``MAX_SPANS``
    dropped: int = 0  # spans that the response does not contain, or beyond the limit
    failure: str | None = None  # kind of fault; None when the router answered

    @property
    def eligible(self) -> tuple[Span, ...]:
        """Intervals of the routed claims."""
        return tuple(where for span, where in self.spans if span.eligible)

    @property
    def visual(self) -> tuple[Span, ...]:
        """Intervals of everything that depends on the picture, the routed claims included."""
        return tuple(where for span, where in self.spans if span.visual)


def place(spans: Sequence[ClaimSpan], response: str) -> Routing:
    """The answered routing of a response, from what a router said of it."""
    kept = spans[:MAX_SPANS]
    placed = [(s, where) for s, where in zip(kept, locate(kept, response), strict=True) if where]
    return Routing(tuple(placed), dropped=len(spans) - len(placed))


def locate(spans: Iterable[ClaimSpan], response: str) -> list[Span | None]:
    """Where each span stands: half-open characters, None if nowhere.

    A text given several times takes its occurrences in order, each once and without overlap.
    """
    after: dict[str, int] = {}  # text -> end of its last occurrence in use
    found: list[Span | None] = []
    for span in spans:
        start = response.find(span.text, after.get(span.text, 0)) if span.text.strip() else -1
        found.append(None if start < 0 else (start, start + len(span.text)))
        after[span.text] = len(response) + 1 if start < 0 else start + len(span.text)
    return found
