"""The router behind a server: replies good and bad, faults, deadlines, cache, breaker, and a key that stays secret."""

from __future__ import annotations

import builtins
import json
import logging
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace
from socket import create_server

import hydra
import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf
from stub_server import SPAN, Stub, said, serving, spans

from mmcredit.data.world.source import World
from mmcredit.launch import user_error
from mmcredit.services.chat import ChatService
from mmcredit.services.openai_router import OpenAIRouter, parse_spans
from mmcredit.services.replies import InvalidJson, json_object
from mmcredit.services.router import RoutingRequest
from mmcredit.types import Sample, UserError

KEY = "sk-very-secret-0123456789"
SAMPLE = World("val", 1)[0]
GOOD = said(spans("a red circle"))
TEXT = "There is a red circle, and a red circle."


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("STUB_KEY", KEY)


def router(stub: Stub, send_images: bool = False, **options) -> OpenAIRouter:
    defaults = dict(request_seconds=2.0, step_seconds=5.0, backoff_seconds=0.01)
    chat = ChatService("router=openai", "stub", stub.url, "STUB_KEY", **defaults | options)
    return OpenAIRouter(chat, send_images)


def requests(count: int, sample: Sample = SAMPLE) -> list[RoutingRequest]:
    return [RoutingRequest(sample, f"{TEXT} {i}") for i in range(count)]


def number(body) -> int:
    """Which of ``requests(n)`` the server was sent; their order is not kept."""
    return int(body["messages"][-1]["content"].rstrip('"}')[-1])


def check_sum(c) -> None:
    """Every request ends in exactly one way."""
    assert c["requests"] == c["answered"] + c["cached"] + sum(n for k, n in c.items() if k.startswith("failed/"))
    faults = sum(n for k, n in c.items() if k.startswith("attempt/"))
    assert c["answered"] <= c["attempts"] and faults <= c["attempts"]


FAULTS = {  # what the server sends -> kind
    "truncated": (said(spans("a red circle")[:-5]), "invalid_json"),
    "prose": (said("I cannot do that."), "invalid_json"),
    "no spans": (said('{"claims": []}'), "invalid_schema"),
    "a span that is a string": (said('{"spans": ["a red circle"]}'), "invalid_schema"),
    "unknown group": (said(spans("a red circle", span_group="visual")), "invalid_schema"),
    "huge": (said(spans(*["a red circle"] * 5000)), "invalid_json"),
    "deep": (said('{"a":' * 30_000 + "}" * 30_000), "invalid_json"),
    "500": ((500, "{}"), "server_error"),
    "429": ((429, '{"error": {"message": "slow down"}}'), "rate_limit"),
    "404": ((404, '{"error": {"message": "no such model"}}'), "bad_request"),
    "hang": (3.0, "timeout"),
    "closed": (None, "connection"),
    "html": ((200, "<html>hello</html>", "text/html"), "invalid_json"),
    "broken body": ((200, "{nonsense"), "invalid_json"),
    "other object": ((200, '{"choices": "none"}'), "invalid_json"),
    "null content": ((200, '{"choices": [{"message": {"content": null}}]}'), "invalid_json"),
}


@pytest.mark.parametrize(("reply", "kind"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_a_failure_of_its_kind_and_is_tried_again(reply, kind):
    with serving([reply]) as stub:
        asked = router(stub, request_seconds=0.3, retries=1)
        (routing,) = asked.submit(requests(1)).result()
    tries = 1 if kind == "bad_request" else 2
    assert routing.failure == kind and not routing.spans
    assert asked.counters == {
        "requests": 1, "duplicates": 0, "attempts": tries, f"attempt/{kind}": tries, f"failed/{kind}": 1,
        "spans": 0, "dropped": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        spans("a red circle"),
        f"```json\n{spans('a red circle')}\n```",
        f"Sure, {{here}} it is: {spans('a red circle')} Anything else? {{}}",
        f"<think>{{'spans': []}} {{\"spans\": []}}</think>{spans('a red circle')}",
    ],
    ids=["plain", "fenced", "prose", "reasoning"],
)
def test_one_object_is_found_in_a_reply(text):
    with serving([said(text)]) as stub:
        asked = router(stub)
        (routing,) = asked.submit(requests(1)).result()
    assert routing.failure is None and routing.eligible == ((9, 21),)
    assert not hasattr(routing.spans[0][0], "evidence_status")


def test_repeated_foreign_and_no_spans():
    replies = [said(spans("a red circle", "a red circle", "a red circle", "a blue one")), said('{"spans": []}')]
    with serving(lambda _, body: replies[number(body)]) as stub:
        asked = router(stub)
        first, second = asked.submit(requests(2)).result()
    assert first.eligible == ((9, 21), (27, 39)) and first.dropped == 2
    assert second.failure is None and second.spans == () and asked.counters["dropped"] == asked.counters["spans"] == 2


def test_after_an_invalid_reply_the_prompt_says_what_is_wanted():
    with serving([said("sorry"), (500, "{}"), GOOD]) as stub:
        asked = router(stub)
        (routing,) = asked.submit(requests(1)).result()
        sent = [body["messages"][-1]["content"] for body in stub.bodies]
    assert routing.failure is None and asked.counters["answered"] == 1 and asked.counters["attempts"] == 3
    assert "Retry 1" in sent[1] and "Retry 1" in sent[2] and "Retry" not in sent[0]
    assert all(body["temperature"] == 0 for body in stub.bodies) and set(stub.keys) == {f"Bearer {KEY}"}


def test_mixed_faults_add_up_and_are_reported_once(caplog):
    def script(turn, body):
        return [GOOD, said("no"), (500, "{}"), (429, "{}"), None, (400, "{}")][turn % 6]

    with serving(script) as stub, caplog.at_level(logging.INFO):
        asked = router(stub, retries=0, concurrency=4)
        for _ in range(2):
            routings = asked.submit([*requests(12), *requests(12)]).result()
            assert routings[:12] == routings[12:]
    check_sum(asked.counters)
    c = asked.counters
    assert c["requests"] == c["duplicates"] == c["attempts"] == 24 and c["answered"] == c["failed/bad_request"] == 4
    assert "router=openai: 2 of 12 requests failed (server_error" in caplog.text
    assert caplog.text.count("(rate_limit") == 1 and "unit gates there" in caplog.text
    assert len(caplog.records) == 5, caplog.text


def test_pictures_are_shown_once_a_request():
    with serving([GOOD]) as stub:
        router(stub, send_images=True).submit(requests(2)).result()
        content = stub.bodies[0]["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["image_url", "text"]
    assert content[0]["image_url"]["url"].startswith("data:image/png;base64,")
    question = json.loads(content[1]["text"].rpartition("\n")[2])
    assert question["question"] == SAMPLE.question and question["trace"].startswith(TEXT)


def test_the_step_deadline_is_kept_and_cuts_off():
    with serving([5.0]) as stub:
        asked = router(stub, request_seconds=10.0, step_seconds=0.5, concurrency=2)
        start = time.monotonic()
        pending = asked.submit(requests(4))
        assert time.monotonic() - start < 0.4
        routings = pending.result()
        assert time.monotonic() - start < 2.5 and pending.result() is routings
        time.sleep(0.2)
        assert len(stub.bodies) == 2  # those that waited for a place were never sent
    assert [r.failure for r in routings] == ["deadline"] * 4
    check_sum(asked.counters)


def test_a_drip_of_bytes_is_no_sign_of_life():
    """Bytes arrive in time, the reply does not."""
    server = create_server(("127.0.0.1", 0))

    def drip():
        connection, _ = server.accept()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
        try:
            for _ in range(100):
                connection.sendall(b" ")
                time.sleep(0.05)
        except OSError:
            pass

    threading.Thread(target=drip, daemon=True).start()
    chat = ChatService("router=openai", "stub", f"http://127.0.0.1:{server.getsockname()[1]}/v1", retries=0)
    chat.request_seconds = 0.4
    (routing,) = OpenAIRouter(chat).submit(requests(1)).result()
    assert routing.failure == "timeout"


def test_no_more_requests_at_a_time_than_allowed():
    def script(turn, body):
        time.sleep(0.05)
        return GOOD

    with serving(script) as stub:
        asked = router(stub, concurrency=3)
        pending = [asked.submit(requests(5)), asked.submit([RoutingRequest(SAMPLE, "a red circle")] * 5)]
        assert all(r.failure is None for p in pending for r in p.result())
    assert stub.most <= 3 and len(stub.bodies) == 6


def test_valid_replies_are_kept_on_disk_and_damaged_ones_asked_again(tmp_path):
    options = dict(cache=str(tmp_path / "kept"), retries=0)
    with serving(lambda _, body: [GOOD, said("no")][number(body)]) as stub:
        first = router(stub, **options)
        answers = first.submit(requests(2)).result()
        assert [a.failure for a in answers] == [None, "invalid_json"]
        files = list((tmp_path / "kept").iterdir())
        assert [f.suffix for f in files] == [".json"] and KEY not in files[0].read_text()
        second = router(stub, **options)
        assert second.submit(requests(1)).result() == answers[:1] and second.counters["cached"] == 1
        assert len(stub.bodies) == 2
        for damage in ("", "{", '{"reply": 3}', '{"reply": "no"}', "\udcff"):
            files[0].write_bytes(damage.encode("utf-8", "surrogateescape"))
            third = router(stub, **options)
            assert third.submit(requests(1)).result() == answers[:1]
            assert third.counters["cache/corrupt"] == third.counters["answered"] == third.counters["requests"] == 1
            assert json.loads(files[0].read_text())["reply"] == spans("a red circle")
        stub.script = lambda *_: GOOD
        fourth = router(stub, send_images=True, **options)
        fourth.submit(requests(1)).result()
        assert fourth.counters["answered"] == 1  # another prompt


def test_a_disk_that_takes_nothing_costs_no_answer(tmp_path, monkeypatch):
    with serving([GOOD]) as stub:
        asked = router(stub, cache=str(tmp_path / "kept"))
        (tmp_path / "kept").rmdir()
        assert asked.submit(requests(1)).result()[0].failure is None
    assert asked.counters["cache/unwritten"] == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cache folder .*file cannot be made.*cache=null"):
        router(stub, cache=str(tmp_path / "file"))


def test_the_breaker_opens_and_probes():
    down = True

    def script(turn, body):
        return (500, "{}") if down else GOOD

    with serving(script) as stub:
        asked = router(stub, retries=0, concurrency=1, breaker_failures=3, breaker_seconds=0.4)
        first = sorted(r.failure for r in asked.submit(requests(6)).result())
        assert first == ["breaker_open"] * 3 + ["server_error"] * 3 and len(stub.bodies) == 3
        time.sleep(0.5)
        again = sorted(r.failure for r in asked.submit(requests(3)).result())
        assert again == ["breaker_open", "breaker_open", "server_error"] and len(stub.bodies) == 4
        time.sleep(0.5)
        down = False
        assert [r.failure for r in asked.submit(requests(3)).result()] == [None] * 3
    check_sum(asked.counters)


def test_invalid_replies_open_no_breaker():
    with serving([said("no")]) as stub:
        asked = router(stub, retries=0, concurrency=1, breaker_failures=2)
        assert [r.failure for r in asked.submit(requests(5)).result()] == ["invalid_json"] * 5


def test_nobody_listens():
    with serving([GOOD]) as stub:
        asked = router(stub, retries=0)
    (routing,) = asked.submit(requests(1)).result()
    assert routing.failure == "connection"
    assert asked.submit([]).result() == []


def test_the_key_is_never_shown(caplog, tmp_path):
    echo = json.dumps({"error": {"message": f"Incorrect API key {KEY}"}})
    with serving(lambda _, body: [GOOD, (401, echo)][number(body)]) as stub, caplog.at_level(logging.DEBUG):
        asked = router(stub, cache=str(tmp_path))
        routings = asked.submit(requests(2)).result()
        shown = [repr(asked), repr(asked.chat), repr(vars(asked.chat)), repr(routings), str(asked.counters)]
        shown.append(caplog.text)
        copy = pickle.loads(pickle.dumps(asked))
        assert copy.submit(requests(1)).result()[0].failure is None
    assert routings[1].failure == "bad_request" and "Incorrect API key <key>" in caplog.text
    assert KEY not in "".join(shown) and KEY.encode() not in pickle.dumps(asked)
    assert KEY not in "".join(p.read_text() for p in tmp_path.iterdir())


def test_a_key_that_no_header_can_carry_is_a_failure(monkeypatch, caplog):
    monkeypatch.setenv("STUB_KEY", KEY + "\n☃")
    with serving([GOOD]) as stub, caplog.at_level(logging.INFO):
        (routing,) = router(stub, retries=0).submit(requests(1)).result()
    assert routing.failure and KEY not in caplog.text and KEY not in repr(routing)


def test_an_absent_key_is_sent_as_empty(monkeypatch):
    monkeypatch.delenv("STUB_KEY")
    with serving([GOOD]) as stub:
        router(stub).submit(requests(1)).result()
        assert stub.keys == ["Bearer EMPTY"]


def test_a_hanging_request_holds_up_no_exit():
    code = """
import sys
from mmcredit.services.chat import ChatService
from mmcredit.services.openai_router import OpenAIRouter
from mmcredit.services.router import RoutingRequest
from mmcredit.types import Sample
router = OpenAIRouter(ChatService("router=openai", "stub", sys.argv[1], step_seconds=0.3, concurrency=2))
requests = [RoutingRequest(Sample("1", (), "?", "2"), str(i)) for i in range(6)]
print({r.failure for r in router.submit(requests).result()})
router.chat.step_seconds = 60
router.submit(requests)
"""
    with serving([30.0]) as stub:
        run = [sys.executable, "-c", code, stub.url]
        done = subprocess.run(run, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0 and "{'deadline'}" in done.stdout, done.stderr
    assert done.stderr.count("\n") == 1 and "6 of 6 requests failed (deadline)" in done.stderr, done.stderr


def compose(*overrides: str):
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        return hydra.compose("fit", overrides=["router=openai", *overrides])


def test_the_configuration_builds_a_router_and_holds_no_key(tmp_path):
    config = compose(f"run_dir={tmp_path}", "router.chat.model=m", "router.chat.api_key_env=STUB_KEY")
    built = instantiate(config.router)
    assert isinstance(built, OpenAIRouter) and built.chat.cache == f"{tmp_path}/router_cache"
    assert KEY not in OmegaConf.to_yaml(config) and KEY not in repr(built.chat)


def test_further_arguments_reach_the_server(tmp_path):
    quiet = "+router.chat.request.extra_body.chat_template_kwargs.enable_thinking=false"
    with serving([GOOD]) as stub:
        config = compose(f"run_dir={tmp_path}", "router.chat.model=m", f"router.chat.base_url={stub.url}", quiet)
        (routing,) = instantiate(config.router).submit(requests(1)).result()
        sent = stub.bodies[0]
    assert routing.failure is None and sent["max_tokens"] == 8192
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("router.chat.model=null", "router=openai needs a model: router.chat.model="),
        ("router.chat.api_key_env=sk-123", "api_key_env must be the name of an environment variable"),
        ("router.chat.base_url=localhost:8000", "router.chat.base_url=localhost:8000 must start with http://"),
        ("router.chat.concurrency=0", "router.chat.concurrency=0 must be a whole number at least 1"),
        ("router.chat.concurrency=2.5", "router.chat.concurrency=2.5 must be a whole number at least 1"),
        ("router.chat.step_seconds=null", "router.chat.step_seconds=None must be a number at least"),
        ("router.chat.retries=-1", "router.chat.retries=-1 must be a whole number at least 0"),
        ("router.max_chars=0", "router.max_chars=0 must be at least 1"),
    ],
)
def test_a_mistake_is_one_clear_line(override, words, tmp_path):
    with pytest.raises(Exception) as caught:
        instantiate(compose(f"run_dir={tmp_path}", "router.chat.model=m", override).router)
    mistake = user_error(caught.value)
    assert mistake and words in str(mistake) and "\n" not in str(mistake) and "sk-123" not in str(mistake)


def test_without_the_package_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name == "openai":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(UserError, match=r"pip install 'mmcredit\[services\]'"):
        ChatService("router=openai", "m")


def test_spans_are_checked_and_unknown_keys_ignored():
    assert parse_spans(spans("x"))[0].text == "x"
    for missing in set(SPAN) - {"evidence_status", "analysis_category"}:
        broken = {key: value for key, value in SPAN.items() if key != missing}
        with pytest.raises(ValueError, match=missing):
            parse_spans(json.dumps({"spans": [broken]}))


@pytest.mark.parametrize(
    "text", ["", "{", "}{", '{"a": "}', "[1]", "{'a': 1}", '"' * 1000, "{" * 100_000, "{x}" * 60_000]
)
def test_no_object_is_invalid(text):
    with pytest.raises(InvalidJson):
        json_object(text)
    assert json_object('{"a": "}{\\"", "b": {"c": 1}} {"d"') == {"a": '}{"', "b": {"c": 1}}


def test_a_response_is_cut_to_what_is_sent():
    with serving([GOOD]) as stub:
        asked = router(stub)
        asked.max_chars = 10
        asked.submit([RoutingRequest(replace(SAMPLE, images=()), TEXT)]).result()
        assert json.loads(stub.bodies[0]["messages"][-1]["content"].rpartition("\n")[2])["trace"] == TEXT[:10]
