"""Which spans are routed, and where they stand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mmcredit.services.claims import MAX_SPANS, ClaimSpan, Routing, locate, place

CLAIM = ClaimSpan("red", "direct_vef", True, "direct", True, False, "asserted", False)


@pytest.mark.parametrize(
    "change",
    [
        {"span_group": "derived_vef"},
        {"span_group": "non_vef_control"},
        {"is_vef": False},
        {"vef_role": "derived"},
        {"requires_current_image": False},
        {"contains_inference": True},
        {"assertion_status": "uncertain"},
        {"evidence_in_question_text": True},
    ],
    ids=str,
)
def test_every_condition_of_a_direct_claim_counts(change):
    assert CLAIM.eligible and not replace(CLAIM, **change).eligible


def test_repeated_text_takes_its_occurrences_in_order_each_once():
    response = "red, blue, red"
    spans = [replace(CLAIM, text=text) for text in ("red", "red", "blue", "red", "green", "", "red, blue")]
    assert locate(spans, response) == [(0, 3), (11, 14), (5, 9), None, None, None, (0, 9)]
    assert locate([replace(CLAIM, text="aa")] * 2, "aaa") == [(0, 2), None]


def test_what_is_not_found_or_beyond_the_limit_is_counted():
    routing = place([CLAIM, replace(CLAIM, text="blue")], "a red thing")
    assert routing == Routing(((CLAIM, (2, 5)),), dropped=1) and routing.eligible == routing.visual == ((2, 5),)
    many = place([CLAIM] * 40, "red " * 40)
    assert len(many.spans) == MAX_SPANS and many.dropped == 10


def test_an_answer_without_spans_is_no_failure():
    assert place([], "text").failure is None and place([], "text") != Routing(failure="timeout")


def test_derived_spans_are_visual_but_not_routed():
    routing = place([replace(CLAIM, span_group="derived_vef"), replace(CLAIM, span_group="other")], "red red")
    assert routing.visual == ((0, 3),) and routing.eligible == ()
