"""Routers without a server: the embedded world's oracle, and cue words."""

from __future__ import annotations

import time
from dataclasses import replace

import hydra
import pytest
from hydra.utils import instantiate

from mmcredit.data.world.demonstrations import Demonstrations, short_evidence, think
from mmcredit.data.world.grammar import parse
from mmcredit.data.world.source import World
from mmcredit.services.claims import Routing
from mmcredit.services.oracle_router import OracleRouter
from mmcredit.services.router import LocalRouter, RoutingRequest
from mmcredit.services.rules_router import RulesRouter, classify, clauses, spaced
from mmcredit.types import Sample, UserError

WORLD = World("train", 40, seed=3)


def ask(router: LocalRouter, sample: Sample, *responses: str) -> list[Routing]:
    return router.submit([RoutingRequest(sample, r) for r in responses]).result()


@pytest.mark.parametrize("write", [think, short_evidence])
def test_the_oracle_routes_the_visual_claims_of_the_grammar(write):
    demonstrations = Demonstrations(WORLD, write, false_claim=0.5)
    router = OracleRouter()
    for i in range(len(WORLD)):
        text = demonstrations.response(i)
        (routing,) = ask(router, WORLD[i], text)
        claims = parse(text)
        assert routing.eligible == routing.visual == tuple((c.start, c.end) for c in claims if c.visual)
        assert [where for _, where in routing.spans] == [(c.start, c.end) for c in claims]
        assert all(span.text == text[slice(*where)] for span, where in routing.spans)
    assert router.counters["requests"] == router.counters["answered"] == len(WORLD)


def test_the_oracle_refuses_what_is_not_of_the_embedded_world():
    with pytest.raises(UserError, match=r"router=oracle knows only the embedded world.*router=rules, or router=openai"):
        ask(OracleRouter(), Sample("mine", (), "?", "2"), "red circle top left")


def test_the_oracle_can_fail_and_be_late():
    sample, texts = WORLD[0], [f"red circle top left {i}" for i in range(40)] + ["red circle top left 0"]
    router = OracleRouter(delay_seconds=0.2, failure_rate=0.5)
    start = time.monotonic()
    pending = router.submit([RoutingRequest(sample, t) for t in texts])
    routings = pending.result()
    assert time.monotonic() - start >= 0.2 and pending.result() == routings
    failed = sum(r.failure == "injected" for r in routings[:40])
    assert 5 < failed < 35 and routings[40] == routings[0] and routings == ask(router, sample, *texts)
    c = router.counters
    assert c["requests"] == 80 == c["answered"] + c["failed/injected"] and c["duplicates"] == 2
    with pytest.raises(UserError, match="failure_rate=2 must lie in"):
        OracleRouter(failure_rate=2)


ROUTED = [
    "The image shows two dogs",
    "The parabola opens downwards",
    "There are three red circles",
    "The blue bar is taller than the green one",
    "The x-axis is labeled Time",
    "red circle top left",
    "no yellow square",
    "A man stands behind the car",
    "There are 12 apples",
    "In the given figure, the shaded triangle is on the left",
]
NOT_ROUTED = [
    ("So the red circle is larger", "derived"),
    ("The circle is red because it was painted", "derived"),
    ("The area of the circle is 12", "derived"),
    ("The left side of the equation is 3", "derived"),
    ("The total is 3 + 4 blue squares there", "derived"),
    ("Maybe the circle is red", "uncertain"),
    ("The square seems to be left of the circle", "uncertain"),
    ("If the circle is red", "hypothetical"),
    ("Is the circle red?", "hypothetical"),
    ("Option A says the circle is red", "quoted_option"),
    ("The colour of the car is not given in the picture", "control"),
    ("We recall Newton's second law", "control"),
    ("The ball is kicked by a tall player in green", "question"),
]


@pytest.mark.parametrize("clause", ROUTED)
def test_clauses_that_say_something_visible_are_routed(clause):
    assert classify(clause, spaced("What colour is it?")).eligible
    assert not classify(clause, spaced("What colour is it?"), has_image=False).visual


@pytest.mark.parametrize(("clause", "why"), NOT_ROUTED)
def test_other_clauses_are_not(clause, why):
    span = classify(clause, spaced("The ball is kicked by a tall player in green. How far does it fly?"))
    assert not span.eligible
    seen = {
        "derived": span.contains_inference and not (span.visual and span.span_group == "direct_vef"),
        "control": span.span_group == "non_vef_control",
        "question": span.evidence_in_question_text,
    }
    assert seen.get(why, span.assertion_status == why)


def test_clauses_have_exact_places_and_leave_the_answer_out():
    text = "- The parabola opens **downwards**, so a < 0.\nIt is 4.5 cm wide; ok.\nThe answer is \\boxed{a red circle}"
    assert [text[a:b] for a, b in clauses(text)] == ["The parabola opens **downwards", "so a < 0", "It is 4.5 cm wide"]
    (routing,) = ask(RulesRouter(), WORLD[0], text)
    assert [text[slice(*where)] for where in routing.eligible] == ["The parabola opens **downwards"]
    assert all(span.text == text[slice(*where)] for span, where in routing.spans)


def test_a_short_clause_inside_a_longer_one_keeps_its_own_place():
    text = "a red circle top left . a red circle ."
    (routing,) = ask(RulesRouter(), WORLD[0], text)
    assert routing.eligible == ((0, 21), (24, 36))


def test_too_many_clauses_keep_the_visual_ones():
    (routing,) = ask(RulesRouter(), WORLD[0], "We think hard.\n" * 50 + "The circle is red.")
    assert len(routing.spans) == 30 and routing.dropped == 21 and len(routing.eligible) == 1


@pytest.mark.parametrize("text", [" " * 200_000, "not " * 50_000, "a" * 200_000, "1 " * 100_000, "so\n" * 50_000, ""])
def test_rules_take_linear_time(text):
    start = time.monotonic()
    ask(RulesRouter(), replace(WORLD[0], question="why?"), text)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(("choice", "kind"), [("oracle", OracleRouter), ("rules", RulesRouter)])
def test_the_group_router_composes(choice, kind):
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = hydra.compose("fit", overrides=[f"router={choice}", "run_dir=."])
    assert isinstance(instantiate(config.router), kind)
