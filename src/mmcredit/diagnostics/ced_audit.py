"""Does CED's margin measure the evidence, or something else? METHODS section 4, diagnostics.

Evidence-RL, https://arxiv.org/abs/2608.08021v2, sections 4.1 and 4.3.3, appendices A.4 to A.9: the bank's responses are
scored with the true evidence box, with others in its place, without the picture, and under other replacements.

Where the paper is silent: (1) a global mask replaces as many random tokens of the whole picture, as evidence and as
reference alike. (2) Two AUCs: of the evidence against the reference regions of the same response, and of right against
wrong answers to the same question by their evidence drop. (3) The yes/no gap is the mean reward of responses that say
yes, minus that of those that say no.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mmcredit.callbacks.ced import CED
from mmcredit.diagnostics.boxes import Change, Overlapping, Scaled, Scattered, Shifted, Shuffled, blindfold, elsewhere
from mmcredit.diagnostics.ced_margins import Measured, Probe, of_questions
from mmcredit.diagnostics.ced_rewards import discrimination, rewards
from mmcredit.diagnostics.draws import Resampler
from mmcredit.diagnostics.figures import bars
from mmcredit.diagnostics.findings import Cell, Findings, Row, Section
from mmcredit.diagnostics.setting import Setting
from mmcredit.evaluation.statistics import Estimate
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.replace import Evidence, FeatureReplace, Filling, Gaussian, Reference, Region, RingMean, Zero
from mmcredit.scoring.views import View
from mmcredit.types import Sample, UserError

TRUE = "true box"
Rows = dict[str, dict[str, list[Measured]]]  # part of the audit -> condition -> responses


class CEDAudit:
    """The audit of every checkpoint.

    Args:
        method: CED as it is to be audited.
        iou_bins: bounds of the overlap with the true box, falling.
        scales: of the box about its centre.
        shifts: of the box, shares of the picture's shorter side.
        tie: smaller differences are ties, nats a token: without a picture nothing but rounding and the number of tokens
            in a region tells regions apart.
        perturb: whether boxes are perturbed; False saves most of the passes.

    Raises:
        UserError: bins that do not fall from 1 to 0.
    """

    def __init__(
        self,
        method: CED,
        iou_bins: Sequence[float] = (1.0, 0.7, 0.5, 0.3, 0.0),
        scales: Sequence[float] = (0.5, 0.75, 1.25, 1.5, 2.0),
        shifts: Sequence[float] = (0.05, 0.1, 0.2),
        tie: float = 0.01,
        perturb: bool = True,
    ) -> None:
        bins = list(iou_bins)
        if bins[:1] != [1.0] or bins[-1:] != [0.0] or sorted(set(bins), reverse=True) != bins:
            raise UserError(f"diagnostic.iou_bins={bins} must fall from 1.0 to 0.0, e.g. [1.0, 0.7, 0.5, 0.3, 0.0]")
        self.method, self.tie = method, tie
        pairs = zip(bins[1:], bins[:-1], strict=True)
        changes: dict[str, Change] = {f"IoU {low:g}-{high:g}": Overlapping(low, high) for low, high in pairs}
        changes |= {f"scale {factor:g}": Scaled(factor) for factor in scales}
        self.perturbations = changes | {f"shift {share:.0%}": Shifted(share) for share in shifts} if perturb else {}

    def __call__(self, setting: Setting) -> Findings:
        sections, figures = [], {}
        margins: dict[str, dict[str, dict[str, Estimate]]] = {}
        families = [sample.family or "other" for sample in setting.bank.samples]
        golds = [sample.answer for sample in setting.bank.samples]
        for who, policy in setting.policies():
            found, resampler = self.measure(setting, policy), setting.resampler
            made = {part: summary(part, rows, resampler, self.tie) for part, rows in found.items()}
            whole = found["Boxes"][TRUE]
            parts = [*made.values(), by_family(whole, families, resampler, self.tie), rewarded(whole, golds, resampler)]
            sections += [Section(f"{who}: {s.title}", s.rows, s.notes) for s in parts]
            for part, section in made.items():
                shown = {str(row["condition"]): row["margin"] for row in section.rows}
                margins.setdefault(part, {})[who] = {k: v for k, v in shown.items() if isinstance(v, Estimate)}
        for part, series in margins.items():
            figures[f"margin_{part.lower()}"] = bars(series, "margin")
        return Findings(sections, figures)

    def measure(self, setting: Setting, policy: VisionLanguageModel) -> Rows:
        """The measured responses of one checkpoint, by part and condition."""
        probe, ring = Probe(setting, self.method), self.method.views[0].image
        assert isinstance(ring, FeatureReplace)
        boxes: dict[str, Change] = {TRUE: _same, "random box": elsewhere}
        boxes |= {"shuffled box": Shuffled(setting.bank.samples), "blindfold": blindfold}
        found: Rows = {"Boxes": {name: probe(policy, change, self.method.views) for name, change in boxes.items()}}
        if self.perturbations:
            moved = {name: probe(policy, change, self.method.views) for name, change in self.perturbations.items()}
            found["Perturbations"] = {TRUE: found["Boxes"][TRUE], **moved}
        fillings: dict[str, Filling] = {"mean": RingMean(), "zero": Zero(), "gaussian": Gaussian()}
        kinds = {name: self._views([Evidence(), *self._references()], f) for name, f in fillings.items()}
        kinds["global mask"] = self._views([Scattered(i) for i in range(self.method.k + 1)], ring.filling)
        found["Interventions"] = {name: probe(policy, _same, views) for name, views in kinds.items()}
        return found

    def _references(self) -> list[Region]:
        return [Reference(i) for i in range(self.method.k)]

    def _views(self, regions: Sequence[Region], filling: Filling) -> list[View]:
        ring = self.method.views[0].image
        assert isinstance(ring, FeatureReplace)
        return [View(image=FeatureReplace(r, filling, ring.ring), scored=self.method.scored) for r in regions]


def _same(sample: Sample) -> Sample | None:
    return sample


def measures(rows: Sequence[Measured], count: int, tie: float) -> dict[str, np.ndarray]:
    """[Q] of each question: margin, gap, and rate at which the evidence beats the mean reference."""
    values = {"margin": [row.margin for row in rows], "gap": [row.gap for row in rows]}
    values["beats"] = [row.beats(tie) for row in rows]
    return {key: of_questions(rows, of, count) for key, of in values.items()}


def summary(part: str, rows: Mapping[str, Sequence[Measured]], resampler: Resampler, tie: float) -> Section:
    """Every condition, and how far its margin lies from the first one's, over the questions that have both."""
    found = {name: measures(of, resampler.clusters, tie) for name, of in rows.items()}
    first, table = next(iter(found)), list[Row]()

    def mean(value_Q: np.ndarray) -> Estimate:
        return resampler.estimate(resampler.mean(value_Q))

    for name, of in rows.items():
        row: dict[str, Cell] = {"condition": name, "responses": len(of)}
        row |= {key: mean(value_Q) for key, value_Q in found[name].items()}
        apart = found[name]["margin"] - found[first]["margin"]
        row[f"margin - {first}"] = None if name == first else mean(apart)
        if part == "Interventions":
            row["AUC evidence"] = mean(of_questions(of, [r.auc(tie) for r in of], resampler.clusters))
            row["AUC answer"] = resampler.estimate(discrimination(of, resampler, tie))
        table.append(row)
    notes = ["margin: as configured, -1..1; gap: s_ev - mean s_non, nats a token; beats: share in which the evidence "
             f"counts more than the mean reference; gaps up to {tie:g} nats are half a win"]  # fmt: skip
    return Section(part, table, notes)


def by_family(rows: Sequence[Measured], families: Sequence[str], resampler: Resampler, tie: float) -> Section:
    """The true box, by question family."""
    table = list[Row]()
    for family in sorted({families[row.question] for row in rows}):
        of = [row for row in rows if families[row.question] == family]
        found = measures(of, resampler.clusters, tie).items()
        shown = {key: resampler.estimate(resampler.mean(value_Q)) for key, value_Q in found}
        table.append({"family": family, "responses": len(of), **shown})
    return Section("Families", table)


def rewarded(rows: Sequence[Measured], golds: Sequence[str], resampler: Resampler) -> Section:
    """Reward statistics with the true box."""
    found = {name: resampler.estimate(value) for name, value in rewards(rows, golds, resampler).items()}
    return Section("Rewards", [{"statistic": name, "value": value} for name, value in found.items()])
