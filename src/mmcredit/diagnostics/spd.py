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

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mmcredit.callbacks.pacg import persistence
from mmcredit.diagnostics.bank import FrozenResponse
from mmcredit.diagnostics.figures import bars, points
from mmcredit.diagnostics.findings import Findings
from mmcredit.diagnostics.setting import Setting
from mmcredit.diagnostics.spd_tables import CONTROL, GROUPS, ClaimScore, changes, levels, measured, robustness
from mmcredit.functional import masked_mean
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.edits import ImageEdit, PixelMask
from mmcredit.scoring.views import View
from mmcredit.services.claim_tokens import claim_tokens, tokens_of
from mmcredit.services.service import Place
from mmcredit.types import Rollout, UserError


class SPD:
    """Sensitivity and persistence of every checkpoint.

    Args:
        corruptions: name -> edit of the picture; the first is that of the main tables. Default: half of the cells
            black.
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
            robustness(scores, list(self.edits), setting.resampler),
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
            places = [(b, g) for b, g in where_BG.nonzero().tolist()]
            special = setting.encoder.special_ids
            return [row for at in places for row in self._claims(rollout, frozen[at[0]][at[1]], at, etas, kls, special)]

        return setting.over(work)

    def _claims(
        self,
        rollout: Rollout,
        response: FrozenResponse,
        place: Place,
        etas: Sequence[Tensor],
        kls: Sequence[Tensor],
        special_ids: Tensor,
    ) -> list[ClaimScore]:
        """The claims of one response that have a token.

        Args:
            etas, kls: [B, G, T] under each corruption: change of the log-prob, divergence.
        """
        kept = [c for c in response.claims if c.status or c.span.span_group == "non_vef_control"]
        spans = [*rollout.responses.spans[place[0]][place[1]], *[(0, 0)] * int((~rollout.mask_BGT[place]).sum())]
        claims_ST = tokens_of([claim.where for claim in kept], spans)
        residual_T = claim_tokens(rollout, place, response.routing, special_ids).residual_T
        enough, found = int(residual_T.sum()) >= self.min_residual, list[ClaimScore]()
        for claim, own_T in zip(kept, claims_ST, strict=True):
            if not own_T.any():
                continue
            efs = (float(masked_mean(kl[place], own_T)) for kl in kls)
            deltas = (
                float(persistence(eta[place], own_T[None], residual_T)[0])
                if enough and torch.isfinite(eta[place]).all()
                else math.nan
                for eta in etas
            )
            status = claim.status or CONTROL
            found.append(ClaimScore(rollout.start + place[0], place[1], status, tuple(efs), tuple(deltas)))
        return found
