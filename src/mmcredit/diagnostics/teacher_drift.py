"""PACE's claim: in training the vision gap of the teacher drifts up, while the contrasts of its hints stay near 0, and
the mixing rate keeps its spread though confidence rises. METHODS section 5; PACE, appendix B.8, Figure 5.

The bank's responses are scored under right and wrong hints by every checkpoint as its own teacher; give the checkpoints
in the order of training. Only responses with both hints are measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from mmcredit.callbacks.pace import PACE, robust_z
from mmcredit.diagnostics.draws import Draws, Resampler, means
from mmcredit.diagnostics.figures import lines
from mmcredit.diagnostics.findings import Cell, Findings, Row, Section
from mmcredit.diagnostics.setting import Setting
from mmcredit.functional import masked_mean
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.four_views import four_views
from mmcredit.scoring.hints import gold_hints, hinted, sibling_hints
from mmcredit.types import UserError

QUANTITIES = ("vision_gap", "delta", "delta_null", "confidence")
PERCENT = (10, 50, 90)


@dataclass(frozen=True, slots=True)
class Signals:
    """What a teacher says of one response, means over its tokens, nats."""

    question: int
    response: int
    vision_gap: float  # right hint: image - null
    delta: float  # image: right - wrong hint
    delta_null: float  # null: right - wrong hint
    confidence: float  # S


class TeacherDrift:
    """Level and drift of the teacher's signals over checkpoints.

    Args:
        method: PACE as it is to be watched: hints, confidence (the mean of its measures), bounds of the rate.
    """

    def __init__(self, method: PACE) -> None:
        self.method = method

    def __call__(self, setting: Setting) -> Findings:
        """Measure.

        Raises:
            UserError: no response has both hints.
        """
        signals = {who: self.signals(setting, policy) for who, policy in setting.policies()}
        if not any(signals.values()):
            raise UserError("no response of the bank has a right and a wrong hint: no group has a wrong answer")
        found = {who: means(rows, QUANTITIES, setting.resampler) for who, rows in signals.items()}
        estimates = {
            who: {key: setting.resampler.estimate(value) for key, value in values.items()}
            for who, values in found.items()
        }
        table: list[Row] = []
        for who, rows in signals.items():
            row: dict[str, Cell] = {"checkpoint": who, "responses": len(rows), **estimates[who]}
            table.append(row | {f"lambda P{p}": v for p, v in zip(PERCENT, self.rates(rows), strict=True)})
        notes = ["vision_gap: right hint, image - null; delta: image, right - wrong hint; delta_null: the same without "
                 "the image; nats a token. lambda: PACE's mixing rate, confidence compared over the bank"]  # fmt: skip
        sections = [Section("Teacher signals", table, notes), drift(found, setting.resampler)]
        series = {key: [values[key] for values in estimates.values()] for key in QUANTITIES}
        return Findings(sections, {"drift": lines(series, list(signals), "nats a token")})

    def signals(self, setting: Setting, policy: VisionLanguageModel) -> list[Signals]:
        """Of every response with both hints."""
        scorer, method = setting.scorer(policy), self.method

        def work(start: int, stop: int) -> list[Signals]:
            rollout = setting.frozen(policy, start, stop)
            gold = gold_hints(rollout, method.template)
            wrong = sibling_hints(rollout, method.max_negatives, method.template)
            paired_BG = hinted(rollout, gold) & torch.stack([hinted(rollout, hints) for hints in wrong]).any(0)
            paired_BG &= torch.tensor([bool(s.images) for s in rollout.prompts.samples])[:, None]
            views = four_views(rollout, scorer, gold, wrong, method.negatives, paired_BG, paired_BG & False)
            gaps = (views.right - views.right_null, views.right - views.wrong, views.right_null - views.wrong_null)
            shown = [masked_mean(gap.double(), rollout.mask_BGT, dim=-1) for gap in gaps]
            shown.append(torch.stack(method.confidence(views, rollout.mask_BGT)).mean(0))
            return [
                Signals(start + b, g, *(float(values[b, g]) for values in shown))
                for b, g in paired_BG.nonzero().tolist()
            ]

        return setting.over(work)

    def rates(self, rows: Sequence[Signals]) -> list[float]:
        """P10, P50, P90 of lambda over the bank."""
        s_N = torch.tensor([row.confidence for row in rows])
        low, high = self.method.rate_min, self.method.rate_max
        rate_N = low + (high - low) * torch.sigmoid(robust_z(s_N, s_N))
        return [float(rate_N.quantile(p / 100)) if len(rows) else float("nan") for p in PERCENT]


def drift(found: Mapping[str, Mapping[str, Draws]], resampler: Resampler) -> Section:
    """Last checkpoint - first, and how many times the vision gap drifts as far as each contrast (about 20 in PACE)."""
    first, last = next(iter(found)), [*found][-1]
    if first == last:
        return Section("Drift", [])
    change = {key: found[last][key] - found[first][key] for key in QUANTITIES}
    row: dict[str, Cell] = {"from": first, "to": last}
    row |= {key: resampler.estimate(value) for key, value in change.items()}
    for key in ("delta", "delta_null"):
        row[f"vision_gap / {key}"] = resampler.estimate(abs(change["vision_gap"]) / abs(change[key]))
    return Section("Drift", [row], ["the last two: ratio of the sizes of the drifts; about 20 in the paper"])
