"""Does a policy make fewer wrong claims, or just fewer claims? PACG's free-generation avoidance audit, appendix D.5.

Every checkpoint answers the bank's questions anew; a router marks its claims, a labeller says whether the picture bears
them out. Responses that either failed on are left out and counted. Means over responses, then questions.

Where the paper is silent: a response is uncertain if it holds one of ``HEDGES`` or a span that the router calls
uncertain; it abstains if it gives no final answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median

import numpy as np

from mmcredit.diagnostics.annotation import labelled, routed
from mmcredit.diagnostics.bank import Claim
from mmcredit.diagnostics.draws import Draws, Resampler, means
from mmcredit.diagnostics.figures import bars
from mmcredit.diagnostics.findings import Cell, Findings, Row, Section
from mmcredit.diagnostics.setting import Setting
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.text import tokens_meeting
from mmcredit.services.claim_status import Labelled, StatusRequest
from mmcredit.services.router import Router
from mmcredit.services.service import Service
from mmcredit.types import Span

HEDGES = re.compile(
    r"\b(not sure|unsure|uncertain|unclear|cannot (?:be )?(?:determined?|tell|see|say|answer)|can't (?:tell|see|say)|"
    r"not (?:clearly )?visible|hard to (?:tell|see|say)|impossible to (?:tell|see|say)|not enough information)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Audited:
    """One response; shares and flags as numbers, nan where undefined."""

    question: int
    response: int
    direct_claim: float  # whether it makes one
    direct_claims: float
    direct_tokens: float  # share of its tokens
    unsupported_claims: float  # share of its direct claims; nan without any
    unsupported: float  # whether it makes such a claim
    right: float
    uncertain: float
    abstains: float
    length: float  # tokens


MEASURES = tuple(f.name for f in fields(Audited))[2:]


class Avoidance:
    """The audit of every checkpoint.

    Args:
        router: marks claims.
        labels: says which of them the picture bears out.
    """

    def __init__(self, router: Router, labels: Service[StatusRequest, Labelled]) -> None:
        self.router, self.labels = router, labels

    def __call__(self, setting: Setting) -> Findings:
        table, found = list[Row](), dict[str, dict[str, Draws]]()
        for who, policy in setting.policies():
            every = self.audit(setting, policy)
            rows = [row for row in every if row is not None]
            found[who] = means(rows, MEASURES, setting.resampler)
            row: dict[str, Cell] = {"checkpoint": who, "annotated": f"{len(rows)}/{len(every)}"}
            row |= {key: setting.resampler.estimate(value) for key, value in found[who].items()}
            table.append(row | {"median length": median(r.length for r in rows) if rows else None})
        notes = [
            "means over responses, then questions; direct_tokens: share of a response's tokens in direct claims; "
            "unsupported_claims: share of a response's direct claims; unsupported: share of responses"
        ]
        sections = [Section("Free generation", table, notes), changes(found, setting.resampler)]
        shares = ("direct_claim", "unsupported_claims", "unsupported", "right", "uncertain", "abstains")
        series = {
            who: {key: setting.resampler.estimate(values[key]) for key in shares} for who, values in found.items()
        }
        return Findings(sections, {"avoidance": bars(series, "share")})

    def audit(self, setting: Setting, policy: VisionLanguageModel) -> list[Audited | None]:
        """Every response; None where it could not be annotated."""

        def work(start: int, stop: int) -> list[Audited | None]:
            samples = setting.bank.samples[start:stop]
            responses, grades = setting.generated(policy, setting.encoder(samples))
            places = [(b, g) for b, group in enumerate(responses.texts) for g in range(len(group))]
            shown, texts = [samples[b] for b, _ in places], [responses.texts[b][g] for b, g in places]
            claims = labelled(self.labels, shown, texts, routed(self.router, shown, texts))
            return [
                None
                if isinstance(own, str)
                else audited(start + b, g, responses.texts[b][g], responses.spans[b][g], own,
                             bool(grades.correct_BG[b, g]), grades.answers[b][g] is None)
                for (b, g), own in zip(places, claims, strict=True)
            ]  # fmt: skip

        return setting.over(work)


def audited(
    question: int, response: int, text: str, spans: Sequence[Span], claims: Sequence[Claim], right: bool, silent: bool
) -> Audited:
    """What one annotated response says.

    Args:
        spans: characters of its tokens.
        silent: it gives no final answer.
    """
    direct = [claim for claim in claims if claim.span.eligible]
    covered = np.zeros(len(spans), dtype=bool)
    for claim in direct:
        covered |= np.array(tokens_meeting(spans, claim.where), dtype=bool)
    bad = sum(claim.unsupported for claim in direct)
    hedged = HEDGES.search(text) is not None or any(c.span.assertion_status == "uncertain" for c in claims)
    return Audited(
        question, response, float(bool(direct)), float(len(direct)), float(covered.mean()) if len(spans) else 0.0,
        bad / len(direct) if direct else float("nan"), float(bad > 0), float(right), float(hedged), float(silent),
        float(len(spans)),
    )  # fmt: skip


def changes(found: Mapping[str, Mapping[str, Draws]], resampler: Resampler) -> Section:
    """Each checkpoint against the first."""
    base, *others = found
    rows = [
        {"checkpoint": who} | {key: resampler.estimate(found[who][key] - found[base][key]) for key in MEASURES}
        for who in others
    ]
    return Section("Changes", rows, [f"against {base}"])
