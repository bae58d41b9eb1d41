"""The embedded world's judges, and what is sent ahead."""

from __future__ import annotations

import time
from dataclasses import replace

import hydra
import pytest
from hydra.utils import instantiate

from mmcredit.data.world.demonstrations import Demonstrations, think
from mmcredit.data.world.grammar import Verdict as Claimed
from mmcredit.data.world.grammar import judge, parse
from mmcredit.data.world.source import World
from mmcredit.services.judge import Comparison, FactRequest, Score, ThinkingRequest, Verdict
from mmcredit.services.openai_judge import OpenAIFacts, OpenAIJudge, OpenAIThinking
from mmcredit.services.oracle_judge import OracleFacts, OracleJudge, OracleThinking
from mmcredit.services.service import Ahead
from mmcredit.types import Sample, UserError

WORLD = World("train", 60, seed=3)


def comparison(index: int, response: str) -> Comparison:
    sample = WORLD[index]
    return Comparison(sample, response, sample.meta["reference"], sample.meta["pseudo_ground_truth"])


def test_the_worlds_references_are_true_and_beaten_by_complete_true_responses():
    for i in range(len(WORLD)):
        q, sample = WORLD.question(i), WORLD[i]
        claims, end = think(q, q.answer)
        reference, facts = sample.meta["reference"], sample.meta["key_facts"].split("\n")
        assert facts == claims and len(parse(reference)) == len(claims) - 1 and reference.endswith(end)
        assert set(judge(parse(reference), q.objects)) <= {Claimed.SUPPORTED}
        shown = judge(parse(sample.meta["pseudo_ground_truth"]), q.objects)
        assert shown == (Claimed.SUPPORTED,) * len(q.objects)
        complete = " . ".join([*claims, end])
        verdicts = OracleJudge().submit([comparison(i, complete), comparison(i, reference)]).result()
        assert verdicts == [Verdict(True), Verdict()]


def test_the_oracles_against_a_count_of_claims():
    demonstrations = Demonstrations(WORLD, think, false_claim=0.5)
    preferred, thinking = [], []
    for i in range(len(WORLD)):
        text, sample = demonstrations.response(i), WORLD[i]
        found = judge(parse(text), sample.objects)
        wrong, held = found.count(Claimed.CONTRADICTED), found.count(Claimed.SUPPORTED)
        (verdict,) = OracleJudge().submit([comparison(i, text)]).result()
        complete = held > len(parse(sample.meta["reference"]))
        assert verdict.preferred is (complete and not wrong)
        assert len(verdict.errors) == wrong and all(error in text for error in verdict.errors)
        (score,) = OracleThinking().submit([ThinkingRequest(sample, text)]).result()
        assert score.value == pytest.approx(1 - wrong / len(found))
        preferred.append(verdict.preferred)
        thinking.append(score.value)
    assert 10 < sum(preferred) < 50 and 0 <= min(thinking) < max(thinking) == 1


def test_facts_given_twice_must_be_stated_twice():
    facts = ("red circle top left", "red circle top left", "no blue square", "green circle")
    texts = ["red circle top left . no blue square .", "red circle top left . red circle top left . \\boxed{x}"]
    texts += ["red circle . green circle top left . blue square .", "No Blue Square"]
    scores = OracleFacts().submit([FactRequest(WORLD[0], text, facts) for text in texts]).result()
    assert [s.value for s in scores] == [0.5, 0.5, 0.0, 0.0]


def test_requests_of_another_world_fail_and_a_submit_of_nothing_else_is_refused():
    foreign, text = replace(WORLD[0], id="mine", objects=()), Sample("text", (), "?", "2")
    oracle = OracleThinking()
    asked = [ThinkingRequest(s, "red circle") for s in (foreign, WORLD[1], text)]
    assert [s.failure for s in oracle.submit(asked).result()] == ["unknown_scene", None, "unknown_scene"]
    assert oracle.counters["failed/unknown_scene"] == 2 and oracle.counters["answered"] == 1
    assert oracle.submit(asked[2:]).result() == [Score(failure="unknown_scene")]
    with pytest.raises(UserError, match=r"judge=oracle knows only.*'mine'.*judge=openai judge.chat.model="):
        oracle.submit(asked[:1])
    with pytest.raises(UserError, match="judge=oracle"):
        OracleFacts().submit([FactRequest(foreign, "x", ("the dog is brown",))])


def test_the_oracle_can_fail_and_be_late():
    requests = [ThinkingRequest(WORLD[0], f"red circle {i}") for i in range(40)]
    oracle, start = OracleThinking(delay_seconds=0.2, failure_rate=0.5), time.monotonic()
    pending = oracle.submit([*requests, requests[0]])
    scores = pending.result()
    assert time.monotonic() - start >= 0.2 and scores[40] == scores[0] and pending.result() is scores
    c = oracle.counters
    assert 5 < c["failed/injected"] < 35 and c["requests"] == 40 == c["answered"] + c["failed/injected"]
    assert c["duplicates"] == 1
    with pytest.raises(UserError, match="failure_rate=2 must lie in"):
        OracleJudge(failure_rate=2)


class Counting(OracleThinking):
    """Remembers how many distinct requests each submit had."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def submit(self, requests):
        self.sizes.append(len(requests))
        return super().submit(requests)


def test_what_was_sent_ahead_is_not_asked_again_and_what_was_not_is():
    sample, service = WORLD[0], Counting()
    ahead = Ahead(service)
    first = {(0, g): ThinkingRequest(sample, text) for g, text in enumerate(["a", "red circle", "a"])}
    ahead.ask(first)
    ahead.ask({})
    moved = {(5, 0): first[0, 1], (5, 1): ThinkingRequest(sample, "b"), (6, 0): first[0, 0]}
    answers = ahead.collect(moved)
    assert service.sizes == [2, 1] and list(answers) == list(moved)
    assert answers == {place: service.answer(request) for place, request in moved.items()}
    ahead.collect(first)
    assert service.sizes == [2, 1, 2]  # the step was forgotten
    assert ahead.collect({}) == {}


@pytest.mark.parametrize(
    ("choice", "kinds"),
    [("oracle", (OracleJudge, OracleFacts, OracleThinking)), ("openai", (OpenAIJudge, OpenAIFacts, OpenAIThinking))],
)
def test_the_group_judge_switches_all_judges(choice, kinds, tmp_path):
    options = ["judge.chat.model=m", "judge.chat.cache=null", "seed=7"] if choice == "openai" else []
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = hydra.compose(
            "fit",
            overrides=[f"judge={choice}", "callbacks=[palmr,perception_r1,sophia]", f"run_dir={tmp_path}", *options],
        )
    built = [instantiate(config.callbacks[name]).judge.service for name in ("palmr", "perception_r1", "sophia")]
    assert tuple(map(type, built)) == kinds
    if choice == "openai":
        assert built[0].seed == 7 and not built[0].both_orders and built[0].name == "judge=openai"
