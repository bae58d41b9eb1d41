"""Sensitivity and persistence: hand-computed contrasts, brute-force claims, and a model that does not see."""

from __future__ import annotations

import math

import pytest

from mmcredit.diagnostics.draws import Resampler
from mmcredit.diagnostics.spd import SPD
from mmcredit.diagnostics.spd_tables import CONTROL, ClaimScore, contrasts, measured, valid_share
from mmcredit.evaluation.statistics import Bootstrap
from mmcredit.scoring.edits import CoarseInk, PixelMask
from mmcredit.scoring.views import View
from mmcredit.services.claim_status import SUPPORTED
from mmcredit.types import UserError

BAD = "contradicted"


def claims(values):
    """(question, response, status, persistence) -> scores; EFS is 10 + persistence."""
    return [ClaimScore(q, r, status, (10 + d,), (d,)) for q, r, status, d in values]


def test_did_and_interaction_by_hand():
    """Base: direct 0 -> (.2 + .4)/2 = .3, 1 -> -.1, mean .1; control 0 -> .1, 1 -> .3, mean .2.
    Model: direct 0 -> (.0 + .8)/2 = .4, 1 -> .3, mean .35; control 0 -> -.1, 1 -> .2, mean .05.
    DID = (.35 - .1) - (.05 - .2) = .4. Unsupported .4 -> .8, supported (.2 - .1)/2 = .05 -> (.0 + .3)/2 = .15:
    interaction .4 - .1 = .3."""
    shape = [(0, 0, SUPPORTED), (0, 1, BAD), (1, 0, SUPPORTED), (0, 1, CONTROL), (1, 2, CONTROL)]
    base = claims([(*s, d) for s, d in zip(shape, (0.2, 0.4, -0.1, 0.1, 0.3), strict=True)])
    model = claims([(*s, d) for s, d in zip(shape, (0.0, 0.8, 0.3, -0.1, 0.2), strict=True)])
    resampler = Resampler(Bootstrap(400), 2)
    found = contrasts(*(measured(rows, resampler, 0) for rows in (model, base)))
    assert found["DID"].value == pytest.approx(0.4) and found["interaction"].value == pytest.approx(0.3)
    assert found["overall - base"].value == pytest.approx(0.25) == found["efs - base"].value
    assert found["unsupported - base"].value == pytest.approx(0.4)
    assert found["control - base"].value == pytest.approx(-0.15)
    # question 0 twice: (.4 - .3) - (-.1 - .1) = .3; each once: .4; question 1 twice: (.3 + .1) - (.2 - .3) = .5
    drawn = [round(float(v), 9) for v in found["DID"].drawn_R]
    assert set(drawn) == {0.3, 0.4, 0.5} and 150 < drawn.count(0.4) < 250


def test_claims_count_within_responses_first():
    rows = claims([(0, 0, BAD, 1.0), (0, 0, BAD, 3.0), (0, 1, BAD, 6.0)])
    assert measured(rows, Resampler(Bootstrap(5), 1), 0)["unsupported"].value == 4.0
    rows += [ClaimScore(0, 2, BAD, (1.0,), (math.nan,)), ClaimScore(0, 3, CONTROL, (1.0,), (math.nan,))]
    assert measured(rows, Resampler(Bootstrap(5), 1), 0)["unsupported"].value == 4.0
    assert valid_share(rows, 0) == pytest.approx(2 / 3)


def test_every_claim_against_its_definition(think_bank, make_setting, shipped):
    """EFS from the scorer's divergence and persistence from two log-probs, token by token."""
    setting, edit = make_setting(think_bank, base=shipped), PixelMask(0.5)
    found = iter(SPD({"mask": edit}, seeds=1, min_residual=4).score(setting, shipped))
    scorer = setting.scorer(shipped)
    rollout = setting.frozen(shipped, 0, len(think_bank), scorer)
    masked, kl = scorer.logp(rollout, View(image=edit)), scorer.kl(rollout, View(), View(image=edit))
    specials = set(setting.encoder.special_ids.tolist())
    for b, group in enumerate(think_bank.responses):
        for g, response in enumerate(group):
            spans, eta = rollout.responses.spans[b][g], (masked - rollout.logp_BGT)[b, g].tolist()
            visual = [meets(spans, claim.where) for claim in response.claims]
            rest = [
                eta[t] for t, (start, end) in enumerate(spans)
                if start < end and response.ids[t] not in specials and not any(v[t] for v in visual)
            ]  # fmt: skip
            for claim, inside in zip(response.claims, visual, strict=True):
                score = next(found)
                assert (score.question, score.response, score.status) == (b, g, claim.status)
                own = [t for t in range(len(spans)) if inside[t]]
                delta = sum(eta[t] for t in own) / len(own) - sum(rest) / len(rest)
                assert score.persistence[0] == pytest.approx(delta, abs=1e-5)
                assert score.efs[0] == pytest.approx(sum(float(kl[b, g, t]) for t in own) / len(own), abs=1e-5)
    assert next(found, None) is None


def meets(spans, where):
    return [any(where[0] <= c < where[1] for c in range(*span)) for span in spans]


def test_a_model_whose_vision_is_zeroed_neither_sees_nor_retracts(think_bank, make_setting, shipped, blind):
    """Exactly: both pictures are one to it. The model that sees differs clearly."""
    spd = SPD({"mask": PixelMask(0.5), "ink": CoarseInk()}, min_residual=4)
    setting = make_setting(think_bank, base=shipped, blind=blind)
    assert all(set(c.efs) == {0.0} and set(c.persistence) == {0.0} for c in spd.score(setting, blind))
    levels, changes, robustness = spd(setting).sections
    assert levels.rows[0]["efs"].low > 0.2 and levels.rows[1]["efs"].value == 0 == levels.rows[1]["overall"].high
    assert changes.rows[0]["efs - base"].high < 0 and len(robustness.rows) == 2 * 3
    assert {row["corruption"] for row in robustness.rows} == {"mask", "mask_1", "ink"}
    first = [row for row in robustness.rows if row["checkpoint"] == "base"]
    assert len({row["efs"].value for row in first}) == 3 and all(row["valid"] == 1.0 for row in first)


def test_control_spans_and_short_references(short_bank, make_setting, shipped):
    setting = make_setting(short_bank, base=shipped)
    rows = SPD(seeds=1, min_residual=4).score(setting, shipped)
    spans = [c for group in short_bank.responses for response in group for c in response.claims]
    assert sum(row.status == CONTROL for row in rows) == sum(not c.span.eligible for c in spans) > 10
    strict = SPD(seeds=1, min_residual=500).score(setting, shipped)
    assert all(math.isnan(d) for row in strict for d in row.persistence) and valid_share(strict, 0) == 0
    assert [row.efs for row in strict] == [row.efs for row in rows]


@pytest.mark.parametrize("options", [{"seeds": 0}, {"min_residual": 0}])
def test_mistakes(options):
    with pytest.raises(UserError, match=r"diagnostic\.seeds=\d and diagnostic\.min_residual=\d must be at least 1"):
        SPD(**options)
