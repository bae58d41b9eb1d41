"""The free-generation audit: one response by hand, all of them against the oracle."""

from __future__ import annotations

import math

import pytest

from mmcredit.diagnostics.annotation import UNLABELLED, labelled, routed
from mmcredit.diagnostics.avoidance import MEASURES, Avoidance, audited
from mmcredit.diagnostics.bank import Claim
from mmcredit.services.claim_status import Labelled, OracleStatus
from mmcredit.services.claims import ClaimSpan
from mmcredit.services.oracle import contradicts
from mmcredit.services.oracle_router import OracleRouter
from mmcredit.services.service import LocalService


def claim(text, where, status, **changed):
    given = {"span_group": "direct_vef", "is_vef": True, "vef_role": "direct", "requires_current_image": True}
    given |= {"contains_inference": False, "assertion_status": "asserted", "evidence_in_question_text": False}
    return Claim(ClaimSpan(text, **{**given, **changed}), where, status)


def test_one_response_by_hand():
    text, spans = "red dot . blue bar 1", [(0, 3), (3, 7), (7, 9), (9, 14), (14, 18), (18, 20), (20, 20)]
    claims = [claim("red dot", (0, 7), "supported"), claim("blue bar", (10, 18), "unsupported")]
    claims.append(claim("1", (19, 20), None, span_group="other"))
    found = audited(4, 1, text, spans, claims, right=True, silent=False)
    wanted = (1.0, 2.0, 4 / 7, 0.5, 1.0, 1.0, 0.0, 0.0, 7.0)
    assert tuple(getattr(found, key) for key in MEASURES) == pytest.approx(wanted) and (
        found.question,
        found.response,
    ) == (4, 1)
    silent = audited(0, 0, "It is unclear to me", [(0, 19)], [], right=False, silent=True)
    assert silent.uncertain == silent.abstains == 1.0 and math.isnan(silent.unsupported_claims)
    assert (silent.direct_claim, silent.unsupported, silent.direct_tokens) == (0.0, 0.0, 0.0)
    doubted = claim("a dot", (0, 5), None, assertion_status="uncertain")
    assert audited(0, 0, "a dot", [(0, 5)], [doubted], False, False).uncertain == 1.0
    assert audited(0, 0, "nuclear plant, unsurely", [(0, 5)], [], False, False).uncertain == 0.0


def test_every_generation_against_the_oracle(think_bank, make_setting, shipped):
    setting = make_setting(think_bank, group=3, base=shipped)
    made = Avoidance(OracleRouter(), OracleStatus())
    rows = made.audit(setting, shipped)
    responses, grades = setting.generated(shipped, setting.encoder(think_bank.samples))
    assert len(rows) == 48
    for row in rows:
        text, sample = responses.texts[row.question][row.response], think_bank.samples[row.question]
        assert row.unsupported == contradicts(text, sample)
        assert row.right == grades.correct_BG[row.question, row.response]
        assert row.length == responses.mask_BGT[row.question, row.response].sum()
    table = made(setting).sections[0].rows[0]
    assert table["annotated"] == "48/48" and 0 < table["unsupported"].value < 1


class Half(LocalService):
    name = "labels=half"

    def answer(self, request):
        return Labelled(failure="timeout") if "left" in request.response else Labelled((None,) * len(request.claims))


def test_what_could_not_be_annotated_is_left_out(think_bank, make_setting, shipped):
    table = Avoidance(OracleRouter(failure_rate=0.5), OracleStatus())(make_setting(think_bank, base=shipped))
    done, whole = map(int, table.sections[0].rows[0]["annotated"].split("/"))
    assert whole == 32 and 6 < done < 26
    samples = list(think_bank.samples[:8])
    texts = ["red circle top left . \\boxed{1}", "red circle top right . \\boxed{1}", "\\boxed{1}"] * 2
    claims = routed(OracleRouter(), samples[:6], texts)
    found = labelled(Half(), samples[:6], texts, [*claims[:5], "timeout"])
    assert found == ["timeout", UNLABELLED, (), "timeout", UNLABELLED, "timeout"]
