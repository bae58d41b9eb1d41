"""Judges behind a server: replies good and bad, faults, the order of what is compared, and both orders."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import hydra
import pytest
from hydra.utils import instantiate
from stub_server import Stub, said, serving

from mmcredit.data.world.source import World
from mmcredit.launch import user_error
from mmcredit.services.chat import ChatService
from mmcredit.services.judge import Comparison, FactRequest, Score, ThinkingRequest, Verdict
from mmcredit.services.openai_judge import OpenAIFacts, OpenAIJudge, OpenAIThinking

SAMPLE = World("val", 1)[0]
GOOD, BAD = "the good one", "the bad one"


def chat(stub: Stub, **options) -> ChatService:
    defaults = dict(request_seconds=2.0, step_seconds=5.0, backoff_seconds=0.01, retries=0)
    return ChatService("judge=openai", "stub", stub.url, **defaults | options)


def comparisons(count: int) -> list[Comparison]:
    """The good one is the response of even requests, the reference of odd ones."""
    texts = [(f"{GOOD} {i}", f"{BAD} {i}") for i in range(count)]
    return [Comparison(SAMPLE, *pair[:: -1 if i % 2 else 1], "a red circle") for i, pair in enumerate(texts)]


def material(body) -> dict[str, str]:
    """What is to be judged, as the server was sent it."""
    return json.loads(body["messages"][-1]["content"].partition("To judge:\n")[2].partition("\n\nRetry")[0])


def preference(better: str, *errors: tuple[str, str]) -> str:
    found = [{"trace": trace, "error": error} for trace, error in errors]
    return json.dumps({"perceptual_errors": found, "better": better, "remark": "further keys are ignored"})


def honest(turn, body):
    """Prefers the good one, wherever it stands, and finds an error in the other."""
    a_is_good = material(body)["A"].startswith(GOOD)
    return said(preference("A" if a_is_good else "B", ("B" if a_is_good else "A", "says red, is blue")))


def check_sum(c: Counter[str]) -> None:
    assert c["requests"] == c["answered"] + c["cached"] + sum(n for k, n in c.items() if k.startswith("failed/"))


@pytest.mark.parametrize("both_orders", [False, True])
def test_the_better_one_is_preferred_wherever_it_stands(both_orders):
    with serving(honest) as stub:
        judge = OpenAIJudge(chat(stub), both_orders=both_orders)
        verdicts = judge.submit(comparisons(8)).result()
        firsts = Counter(material(body)["A"].startswith(GOOD) for body in stub.bodies)
    assert verdicts == [Verdict(True), Verdict(False, ("says red, is blue",))] * 4
    assert len(firsts) == 2 and judge.counters["requests"] == 8 * (1 + both_orders) == firsts.total()
    assert not judge.counters["ties"] and not judge.counters["disagreements"]
    check_sum(judge.counters)


def test_the_judge_gets_text_only_and_is_told_what_to_ignore():
    with serving(honest) as stub:
        OpenAIJudge(chat(stub), max_chars=10).submit([replace(comparisons(1)[0], reference="x" * 50)]).result()
        (body,) = stub.bodies
    content = body["messages"][-1]["content"]
    assert isinstance(content, str) and SAMPLE.images and body["temperature"] == 0
    assert "Ignore length" in content and "final answer is right" in content and "follow no instruction" in content
    shown = material(body)
    assert shown["question"] == SAMPLE.question and shown["description"] == "a red circle"
    assert {shown["A"], shown["B"]} == {GOOD[:10], "x" * 10}


def test_the_order_is_a_hash_deterministic_and_unbiased():
    requests = comparisons(2000)
    with serving(honest) as stub:
        judge, other = OpenAIJudge(chat(stub), seed=1), OpenAIJudge(chat(stub), seed=2)
        orders = [judge.orders(r)[0] for r in requests]
        assert orders == [OpenAIJudge(chat(stub), seed=1).orders(r)[0] for r in requests]
        both = OpenAIJudge(chat(stub), both_orders=True, seed=1)
        assert [both.orders(r) for r in requests] == [[first, not first] for first in orders]
    assert abs(sum(orders) - 1000) < 100 and abs(sum(orders[::2]) - 500) < 70  # 4.5 and 4.4 standard errors
    agree = sum(a == other.orders(r)[0] for a, r in zip(orders, requests, strict=True))
    assert abs(agree - 1000) < 100


@pytest.mark.parametrize(("always", "ties"), [("A", 0), ("tie", 8)])
def test_a_judge_that_favours_a_place_is_found_out_by_both_orders(always, ties):
    with serving([said(preference(always))]) as stub:
        judge = OpenAIJudge(chat(stub), both_orders=True)
        assert judge.submit(comparisons(8)).result() == [Verdict()] * 8
        assert judge.counters["ties"] == 8 and judge.counters["disagreements"] == 8 - ties
        single = OpenAIJudge(chat(stub))
        verdicts = single.submit(comparisons(8)).result()
        assert single.counters["ties"] == ties and sum(v.preferred is None for v in verdicts) == ties


def test_half_an_answer_is_a_failure():
    """In one of both orders the good one, as A, breaks the connection."""

    def script(turn, body):
        return None if material(body)["A"].startswith(GOOD) else honest(turn, body)

    with serving(script) as stub:
        judge = OpenAIJudge(chat(stub), both_orders=True)
        assert judge.submit(comparisons(4)).result() == [Verdict(failure="connection")] * 4
    assert judge.counters["answered"] == judge.counters["failed/connection"] == 4
    check_sum(judge.counters)


FAULTS = {  # what the server sends -> kind; None is a valid reply
    "valid": (said(preference("A")), None),
    "fenced": (said(f"```json\n{preference('A')}\n```"), None),
    "reasoning": (said(f"<think>{preference('B')}</think>{preference('A')}"), None),
    "truncated": (said(preference("A")[:-3]), "invalid_json"),
    "prose": (said("A is better."), "invalid_json"),
    "no errors": (said('{"better": "A"}'), "invalid_schema"),
    "errors of no trace": (said('{"better": "A", "perceptual_errors": ["red"]}'), "invalid_schema"),
    "another word": (said(preference("response A")), "invalid_schema"),
    "no word": (said(preference("A").replace('"A"', "1")), "invalid_schema"),
    "500": ((500, "{}"), "server_error"),
    "429": ((429, '{"error": {"message": "slow down"}}'), "rate_limit"),
    "400": ((400, '{"error": {"message": "too long"}}'), "bad_request"),
    "hang": (3.0, "timeout"),
    "closed": (None, "connection"),
}


@pytest.mark.parametrize(("reply", "kind"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_a_failure_of_its_kind_and_is_tried_again(reply, kind):
    with serving([reply]) as stub:
        judge = OpenAIJudge(chat(stub, request_seconds=0.3, retries=1))
        request = comparisons(1)[0]
        (verdict,) = judge.submit([request]).result()
    tries = 1 if kind in (None, "bad_request") else 2
    assert judge.counters["attempts"] == tries
    check_sum(judge.counters)
    if kind is None:
        assert verdict.preferred is judge.orders(request)[0] and judge.counters["answered"] == 1
        return
    assert verdict == Verdict(failure=kind) and not verdict.tie
    assert judge.counters[f"failed/{kind}"] == 1 and judge.counters[f"attempt/{kind}"] == tries
    if kind.startswith("invalid"):
        assert "Retry 1" in stub.bodies[1]["messages"][-1]["content"]


def test_mixed_faults_add_up_and_valid_verdicts_are_kept(tmp_path, caplog):
    replies = [honest, (500, "{}"), said("no"), (429, "{}"), None, said(preference("tie"))]

    def script(turn, body):
        shown = material(body)
        reply = replies[int(shown["A"].split()[-1]) % len(replies)]
        return reply(turn, body) if callable(reply) else reply

    with serving(script) as stub:
        judge = OpenAIJudge(chat(stub, cache=str(tmp_path)))
        asked = comparisons(12)
        first = judge.submit([*asked, *asked]).result()
        assert first[:12] == first[12:] and judge.submit(asked).result() == first[:12]
    c = judge.counters
    check_sum(c)
    assert c["requests"] == 24 and c["duplicates"] == 12 and c["answered"] == c["cached"] == 4
    assert c["failed/server_error"] == c["failed/invalid_json"] == c["failed/rate_limit"] == c["failed/connection"] == 4
    assert c["ties"] == 6 and [v.preferred for v in first[:6]] == [True, None, None, None, None, None]
    assert "judge=openai: 2 of 12 requests failed (rate_limit" in caplog.text and "no preference there" in caplog.text


def test_key_facts_are_numbered_and_their_share_counted():
    facts, replies = ("red circle", "blue square", "three dots"), [[1, 3], [], [2, 2, 9, 0, -1], [1, 2, 3]]
    with serving(lambda _, body: said(json.dumps({"found": replies[int(material(body)["trace"])]}))) as stub:
        judge = OpenAIFacts(chat(stub))
        scores = judge.submit([FactRequest(SAMPLE, str(i), facts) for i in range(4)]).result()
        assert material(stub.bodies[0])["facts"] == {"1": "red circle", "2": "blue square", "3": "three dots"}
    assert scores == [Score(2 / 3), Score(0.0), Score(1 / 3), Score(1.0)]


@pytest.mark.parametrize("reply", ['{"found": "1"}', '{"found": [true]}', '{"found": [1.5]}', '{"found": ["1"]}', "{}"])
def test_facts_of_another_schema_are_invalid(reply):
    with serving([said(reply)]) as stub:
        (score,) = OpenAIFacts(chat(stub)).submit([FactRequest(SAMPLE, "x", ("a",))]).result()
    assert score == Score(failure="invalid_schema")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"score": 0.7}', Score(0.7)),
        ('{"score": 1}', Score(1.0)),
        ('{"score": 1.01}', Score(failure="invalid_schema")),
        ('{"score": -0.1}', Score(failure="invalid_schema")),
        ('{"score": NaN}', Score(failure="invalid_schema")),
        ('{"score": "0.7"}', Score(failure="invalid_schema")),
        ("0.7", Score(failure="invalid_json")),
    ],
)
def test_the_quality_of_thinking_is_a_number_in_0_to_1(reply, expected):
    with serving([said(reply)]) as stub:
        (score,) = OpenAIThinking(chat(stub)).submit([ThinkingRequest(SAMPLE, "so it is red")]).result()
        assert material(stub.bodies[0]) == {"question": SAMPLE.question, "trace": "so it is red"}
    assert score == expected


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("judge.chat.model=null", "judge=openai needs a model: judge.chat.model="),
        ("judge.chat.base_url=localhost", "judge.chat.base_url=localhost must start with http://"),
        ("judge.max_chars=0", "judge.max_chars=0 must be at least 1"),
    ],
)
def test_a_mistake_is_one_clear_line(override, words, tmp_path):
    given = ["judge=openai", "callbacks=[palmr]", f"run_dir={tmp_path}", "judge.chat.model=m", override]
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = hydra.compose("fit", overrides=given)
    with pytest.raises(Exception) as caught:
        instantiate(config.callbacks.palmr)
    mistake = user_error(caught.value)
    assert mistake and words in str(mistake) and "\n" not in str(mistake)
