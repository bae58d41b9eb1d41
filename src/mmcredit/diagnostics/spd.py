"""Sensitivity-persistence decoupling: does a policy look more, and still stand by claims that it does not see?

PACG, https://arxiv.org/abs/2609.36572v3, sections 4.2 and 5.4, appendix E: the same responses and spans are scored by
every checkpoint under the picture and under corrupted ones. METHODS section 3, diagnostics.

* EFS: full-vocabulary KL(picture || corrupted), mean over a claim's tokens, nats; higher looks more.
* persistence: how well a claim survives the corruption, relative to the response's other text; lower retracts more.
* interaction: change of unsupported claims - change of supported ones, against the base.
* DID: change of direct claims - change of ``non_vef_control`` spans.

Everything is a mean over claims, then responses, then questions; questions are drawn jointly for all checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from mmcredit.callbacks.pacg import persistence
from mmcredit.diagnostics.draws import Draws, Resampler, by_question
from mmcredit.diagnostics.figures import bars, points
from mmcredit.diagnostics.findings import Findings, Row, Section
from mmcredit.diagnostics.setting import Setting, numbers
from mmcredit.functional import masked_mean
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.edits import ImageEdit, PixelMask
from mmcredit.scoring.views import View
from mmcredit.services.claim_status import STATUSES, SUPPORTED
from mmcredit.services.claim_tokens import claim_tokens, tokens_of
from mmcredit.types import UserError

CONTROL = "control"
GROUPS = {"overall": STATUSES, "supported": (SUPPORTED,), "unsupported": STATUSES[1:], CONTROL: (CONTROL,)}
NAN = float("nan")


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
        return tuple(value == value for value in self.persistence)


class SPD:
    """Sensitivity and persistence of every checkpoint.

    Args:
        corruptions: name -> edit of the picture; the first is that of the main tables. Default: half of the cells black.
        seeds: draws of each corruption that draws; the first is by the sample id alone.
        min_residual: reference tokens without which a response is left out.

    Raises:
        UserError: a value below 1.
    """

    def __init__(
        self, corruptions: Mapping[str, ImageEdit] | None = None, seeds: int = 2, min_residual: int = 8
    ) -> None:
        if seeds < 1 or min_residual < 1:
            raise UserError(f"diagnostic.seeds={seeds} and diagnostic.min_residual={min_residual} must be at least 1")
        self.min_residual, self.edits = min_residual, dict[str, ImageEdit]()
        for name, edit in (corruptions or {"random_mask": PixelMask(0.5)}).items():
            for seed in range(seeds):
                drawn = edit.seeded(seed) if seed else edit
                if drawn not in self.edits.values():
                    self.edits[f"{name}_{seed}" if seed else name] = drawn

    def __call__(self, setting: Setting) -> Findings:
        scores = {name: self.score(setting, policy) for name, policy in setting.policies()}
        found = {name: measured(rows, setting.resampler, 0) for name, rows in scores.items()}
        sections = [
            levels(found, setting.resampler),
            changes(found, setting.resampler),
            self.robustness(scores, setting.resampler),
        ]
        estimates = {
            who: {key: setting.resampler.estimate(value) for key, value in values.items()}
            for who, values in found.items()
        }
        figures = {
            "persistence": bars(
                {who: {group: e[group] for group in GROUPS} for who, e in estimates.items()},
                "corrected persistence, nats a token",
            ),
            "phase": points(
                {who: e["efs"] for who, e in estimates.items()},
                {who: e["unsupported"] for who, e in estimates.items()},
                "direct EFS, nats a token",
                "unsupported persistence, nats a token",
            ),
        }
        return Findings(sections, figures)

    def score(self, setting: Setting, policy: VisionLanguageModel) -> list[ClaimScore]:
        """Every aligned direct claim and control span of the bank, in order."""
        scorer = setting.scorer(policy)
        views = [View(image=edit) for edit in self.edits.values()]

        def work(start: int, stop: int) -> list[ClaimScore]:
            rollout = setting.frozen(policy, start, stop, scorer)
            frozen = setting.bank.responses[start:stop]
            where_BG = torch.tensor([[bool(response.claims) for response in group] for group in frozen])
            etas = [(logp - rollout.logp_BGT).double() for logp in scorer.logps(rollout, views, where_BG)]
            kls = [scorer.kl(rollout, View(), view, where_BG).double() for view in views]
            found = []
            for b, g in where_BG.nonzero().tolist():
                response = frozen[b][g]
                residual_T = claim_tokens(rollout, (b, g), response.routing, setting.encoder.special_ids).residual_T
                pad = [(0, 0)] * int((~rollout.mask_BGT[b, g]).sum())
                kept = [c for c in response.claims if c.status or c.span.span_group == "non_vef_control"]
                claims_ST = tokens_of([c.where for c in kept], [*rollout.responses.spans[b][g], *pad])
                enough = int(residual_T.sum()) >= self.min_residual
                deltas = [
                    numbers(persistence(eta[b, g], claims_ST, residual_T))
                    if enough and torch.isfinite(eta[b, g]).all()
                    else [NAN] * len(kept)
                    for eta in etas
                ]
                efs = [numbers(masked_mean(kl[b, g], claims_ST, dim=-1)) for kl in kls]
                columns = zip(kept, claims_ST.any(-1).tolist(), zip(*efs, strict=True), zip(*deltas, strict=True), strict=True)
                found += [ClaimScore(start + b, g, c.status or CONTROL, e, d) for c, aligned, e, d in columns if aligned]
            return found

        return setting.over(work)

    def robustness(self, scores: Mapping[str, list[ClaimScore]], resampler: Resampler) -> Section:
        """Levels of every corruption and draw, and the change of unsupported persistence against the base."""
        rows: list[Row] = []
        for i, corruption in enumerate(self.edits):
            found = {who: measured(claims, resampler, i) for who, claims in scores.items()}
            base = next(iter(found.values()))
            for who, values in found.items():
                row: dict[str, object] = {"corruption": corruption, "checkpoint": who}
                row |= {key: resampler.estimate(values[key]) for key in ("efs", "overall", "unsupported")}
                row["unsupported - base"] = None if values is base else resampler.estimate(values["unsupported"] - base["unsupported"])
                row["valid"] = valid_share(scores[who], i)
                rows.append(row)  # type: ignore[arg-type]
        return Section("Robustness to the corruption", rows, ["valid: share of responses with a claim that could be scored"])


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
    rows = [
        {"checkpoint": who, **{key: resampler.estimate(value) for key, value in values.items()}}
        for who, values in found.items()
    ]
    notes = ["efs: KL of direct claims, nats a token; overall, supported, unsupported: corrected persistence of direct "
             "claims; control: of non-visual spans"]  # fmt: skip
    return Section("Sensitivity and persistence", rows, notes)


def changes(found: Mapping[str, Mapping[str, Draws]], resampler: Resampler) -> Section:
    """Each checkpoint against the first."""
    base, *others = found
    rows = [
        {"checkpoint": who, **{k: resampler.estimate(v) for k, v in contrasts(found[who], found[base]).items()}}
        for who in others
    ]
    notes = [f"against {base}; questions are drawn jointly for both", "interaction: change of unsupported - change of "
             "supported claims; DID: change of direct claims - change of control spans"]  # fmt: skip
    return Section("Changes", rows, notes if rows else ["one checkpoint: nothing to compare with"])


def valid_share(claims: Iterable[ClaimScore], corruption: int) -> float:
    """Of the responses with a direct claim, those that could be scored."""
    known: dict[tuple[int, int], bool] = {}
    for claim in claims:
        if claim.status != CONTROL:
            known[claim.question, claim.response] = claim.valid[corruption]
    return sum(known.values()) / max(len(known), 1)
