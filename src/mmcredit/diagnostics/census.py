"""How many right answers carry a claim that the picture does not bear out? PACG, appendix D.4 (27.81 % there).

Read off the bank's labels; no model is needed. Questions are drawn with all their responses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmcredit.diagnostics.bank import FrozenResponse
from mmcredit.diagnostics.figures import bars
from mmcredit.diagnostics.findings import Findings, Section
from mmcredit.diagnostics.setting import Setting
from mmcredit.evaluation.statistics import Estimate


class Census:
    """Share of answer-correct responses with at least one unsupported direct claim, of all and by family."""

    def __call__(self, setting: Setting) -> Findings:
        bank, resampler = setting.bank, setting.resampler
        families = np.array([sample.family or "other" for sample in bank.samples])
        rows, shown = [], dict[str, Estimate]()
        for family in ("all", *sorted(set(families))):
            of_Q = (families == family) | (family == "all")
            counts = np.array([counted(group) for group in bank.responses]) * of_Q[:, None]
            flagged_Q, correct_Q, bad_Q, claims_Q = counts.T
            shown[family] = resampler.estimate(resampler.ratio(flagged_Q, correct_Q))
            rows.append(
                {
                    "family": family,
                    "right answers": int(correct_Q.sum()),
                    "with an unsupported claim": int(flagged_Q.sum()),
                    "share": shown[family],
                    "direct claims": int(claims_Q.sum()),
                    "unsupported claims": resampler.estimate(resampler.ratio(bad_Q, claims_Q)),
                }
            )
        notes = ["unsupported claims: share of the direct claims of all responses, right and wrong"]
        figure = bars({"bank": shown}, "right answers with an unsupported claim")
        return Findings([Section("Census", rows, notes)], {"census": figure})


def counted(group: Sequence[FrozenResponse]) -> tuple[int, int, int, int]:
    """Of a question's responses: right with an unsupported claim, right, unsupported claims, direct claims."""
    flags = [any(claim.unsupported for claim in response.direct()) for response in group]
    direct = [claim for response in group for claim in response.direct()]
    right = [response.correct for response in group]
    return (
        sum(f and r for f, r in zip(flags, right, strict=True)),
        sum(right),
        sum(claim.unsupported for claim in direct),
        len(direct),
    )
