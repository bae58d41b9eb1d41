"""Sensitivity and persistence of claims as tables: levels, changes, robustness. See ``diagnostics.spd``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mmcredit.diagnostics.draws import Draws, Resampler, by_question
from mmcredit.diagnostics.findings import Cell, Row, Section
from mmcredit.services.claim_status import STATUSES, SUPPORTED

CONTROL = "control"
GROUPS = {"overall": STATUSES, "supported": (SUPPORTED,), "unsupported": STATUSES[1:], CONTROL: (CONTROL,)}


@dataclass(frozen=True, slots=True)
class ClaimScore:
    """One claim under each corruption; nan where it could not be scored."""

    question: int
    response: int
    status: str  # one of STATUSES, or CONTROL
    efs: tuple[float, ...]  # nats a token
    persistence: tuple[float, ...]  # nats a token

    @property
    def valid(self) -> tuple[bool, ...]:
        """Under which corruptions counterfactual scoring completed."""
        return tuple(not math.isnan(value) for value in self.persistence)


def measured(claims: Iterable[ClaimScore], resampler: Resampler, corruption: int) -> dict[str, Draws]:
    """``efs`` of direct claims, and the persistence of each of ``GROUPS``."""
    claims = list(claims)
    question, response = (np.array([getattr(c, key) for c in claims], dtype=int) for key in ("question", "response"))
    status = np.array([c.status for c in claims], dtype=object)

    def mean(values: list[float], statuses: Iterable[str]) -> Draws:
        kept = np.isin(status, list(statuses))
        of = np.array(values, dtype=float)[kept]
        return resampler.mean(by_question(resampler.clusters, question[kept], response[kept], of))

    found = {"efs": mean([c.efs[corruption] for c in claims], STATUSES)}
    deltas = [c.persistence[corruption] for c in claims]
    return found | {group: mean(deltas, statuses) for group, statuses in GROUPS.items()}


def contrasts(model: Mapping[str, Draws], base: Mapping[str, Draws]) -> dict[str, Draws]:
    """Changes against the base, their interaction, and the difference in differences."""
    change = {key: model[key] - base[key] for key in ("efs", *GROUPS)}
    found = {f"{key} - base": value for key, value in change.items()}
    found["interaction"] = change["unsupported"] - change["supported"]
    found["DID"] = change["overall"] - change[CONTROL]
    return found


def levels(found: Mapping[str, Mapping[str, Draws]], resampler: Resampler) -> Section:
    """What each checkpoint measures."""
    rows: list[Row] = [
        {"checkpoint": who, **{key: resampler.estimate(value) for key, value in values.items()}}
        for who, values in found.items()
    ]
    notes = ["efs: KL of direct claims, nats a token; overall, supported, unsupported: corrected persistence of direct "
             "claims; control: of non-visual spans"]  # fmt: skip
    return Section("Sensitivity and persistence", rows, notes)


def changes(found: Mapping[str, Mapping[str, Draws]], resampler: Resampler) -> Section:
    """Each checkpoint against the first."""
    base, *others = found
    rows: list[Row] = [
        {"checkpoint": who, **{k: resampler.estimate(v) for k, v in contrasts(found[who], found[base]).items()}}
        for who in others
    ]
    notes = [f"against {base}; questions are drawn jointly for both", "interaction: change of unsupported - change of "
             "supported claims; DID: change of direct claims - change of control spans"]  # fmt: skip
    return Section("Changes", rows, notes)


def robustness(scores: Mapping[str, Sequence[ClaimScore]], corruptions: Sequence[str], resampler: Resampler) -> Section:
    """Levels of every corruption and draw, and the change of unsupported persistence against the base."""
    rows: list[Row] = []
    for i, corruption in enumerate(corruptions):
        found = {who: measured(claims, resampler, i) for who, claims in scores.items()}
        base = next(iter(found.values()))
        for who, values in found.items():
            row: dict[str, Cell] = {"corruption": corruption, "checkpoint": who}
            row |= {key: resampler.estimate(values[key]) for key in ("efs", "overall", "unsupported")}
            change = values["unsupported"] - base["unsupported"]
            row["unsupported - base"] = None if values is base else resampler.estimate(change)
            rows.append(row | {"valid": valid_share(scores[who], i)})
    return Section(
        "Robustness to the corruption", rows, ["valid: share of responses with a claim that could be scored"]
    )


def valid_share(claims: Iterable[ClaimScore], corruption: int) -> float:
    """Of the responses with a direct claim, those that could be scored."""
    known: dict[tuple[int, int], bool] = {}
    for claim in claims:
        if claim.status != CONTROL:
            known[claim.question, claim.response] = claim.valid[corruption]
    return sum(known.values()) / max(len(known), 1)
