"""A core behind HTTP gives what it gives in process; strangers and bad messages get an error."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request

import pytest
import torch
from PIL import ImageChops
from test_vllm import LAW, FakeCore

from mmcredit.rollout import vllm_server
from mmcredit.rollout.vllm import VLLMEngine, named_weights
from mmcredit.rollout.vllm_core import Reply
from mmcredit.rollout.vllm_server import TOKEN, RemoteCore, serve
from mmcredit.types import UserError


@pytest.fixture
def behind():
    """(core, URL of its server)."""
    core = FakeCore(lambda n, request: Reply(request.ids, [n, 2], [-0.1 * n, -1.0]))
    server = serve(core, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield core, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_requests_and_replies_arrive_as_they_are(policy, prompts, behind):
    core, url = behind
    asked = list(VLLMEngine(LAW, 0, core)._requests(policy, prompts, 0))
    replies = RemoteCore(url).generate(asked, LAW, [7, 8])
    assert replies == core.generate(core.requests, LAW, [7, 8])
    assert core.forbidden == [7, 8]
    for got, sent in zip(core.requests, asked, strict=True):
        assert (got.ids, got.seed, len(got.images)) == (sent.ids, sent.seed, len(sent.images))
        for ours, theirs in zip(got.images, sent.images, strict=True):
            assert ImageChops.difference(ours.convert("RGB"), theirs).getbbox() is None


@pytest.mark.parametrize("shard", [1, 2**14, 2**28])
def test_weights_arrive_bit_by_bit_in_any_number_of_messages(policy, behind, monkeypatch, shard):
    monkeypatch.setattr(vllm_server, "SHARD", shard)
    core, url = behind
    RemoteCore(url).load(named_weights(policy))
    for name, weight in policy.hf.state_dict().items():
        assert torch.equal(core.weights[name], weight), name
    assert core.log == ["wake", "load"]


def test_an_engine_over_http_samples(policy, prompts, behind):
    core, url = behind
    core.answer = lambda n, _: Reply(prompts.ids[n // 3].tolist(), [n + 1], [-1.0])
    found = VLLMEngine(LAW, 0, RemoteCore(url)).generate(policy, prompts, 0)
    assert [[y.tolist() for y in group] for group in found.ids[:2]] == [[[1], [2], [3]], [[4], [5], [6]]]
    assert core.log == ["wake", "wake", "load", "generate", "sleep"]


def test_another_secret_is_refused(behind, monkeypatch):
    core, url = behind
    monkeypatch.setenv(TOKEN, "theirs")
    remote = RemoteCore(url)
    request = urllib.request.Request(f"{url}/generate", b"{}", {"Authorization": "Bearer other"}, method="POST")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request)
    remote.sleep()
    assert core.log == ["wake", "sleep"]


@pytest.mark.parametrize(("call", "body"), [("generate", b"no json"), ("weights", b"\x80\x04pickle"), ("run", b"")])
def test_a_bad_message_gets_an_error_and_the_next_one_is_served(behind, call, body):
    core, url = behind
    remote = RemoteCore(url)
    with pytest.raises(RuntimeError, match=f"{url}/{call}: (500|404)"):
        remote._post(call, body)
    remote.sleep()
    assert core.log[-1] == "sleep"


def test_no_server_is_a_users_mistake():
    with pytest.raises(UserError, match=r"core.url=http://127.0.0.1:9 does not answer.*python -m mmcredit.serve"):
        RemoteCore("http://127.0.0.1:9")
