"""A core behind HTTP gives what it gives in process; strangers and bad messages get an error."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
import torch
from common import TEMPLATE, WORLD
from PIL import ImageChops
from ranks import on_two_ranks
from test_vllm import LAW, FakeCore
from test_vllm_group import TINY

from mmcredit.data.encode import Encoder
from mmcredit.models.load import load_policy
from mmcredit.models.processor import load_processor
from mmcredit.rollout import vllm_server
from mmcredit.rollout.vllm import VLLMEngine, named_weights
from mmcredit.rollout.vllm_core import Reply, Request
from mmcredit.rollout.vllm_server import TOKEN, RemoteCore, serve
from mmcredit.types import UserError


@contextmanager
def served(core: FakeCore, port: int = 0) -> Iterator[str]:
    """URL of a server in another thread."""
    server = serve(core, "127.0.0.1", port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def behind():
    """(core, URL of its server)."""
    core = FakeCore(lambda n, request: Reply(request.ids, [n, 2], [-0.1 * n, -1.0]))
    with served(core) as url:
        yield core, url


def test_requests_and_replies_arrive_as_they_are(policy, prompts, behind):
    core, url = behind
    asked = list(VLLMEngine(LAW, 0, core)._requests(policy, prompts, 0))
    replies = RemoteCore(url).generate(asked, LAW, [7, 8], [9])
    assert replies == core.generate(core.requests, LAW, [7, 8], [9])
    assert (core.forbidden, core.ends) == ([7, 8], [9])
    for got, sent in zip(core.requests, asked, strict=True):
        assert replace(got, images=()) == replace(sent, images=())
        assert len(got.images) == len(sent.images)
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


def test_another_secret_is_a_users_mistake(behind, monkeypatch):
    remote, sent = RemoteCore(behind[1]), urllib.request.Request
    monkeypatch.setattr(urllib.request, "Request", lambda url, body, _, method: sent(url, body, {}, method=method))
    with pytest.raises(UserError, match=f"core.url={behind[1]}: .* variable {TOKEN} differs: set it to the server's$"):
        remote.sleep()


def test_what_the_server_says_to_a_user_is_said_to_the_user(policy, prompts, behind):
    core, url = behind

    def refuse(n, request):
        raise UserError("a prompt with 2 pictures")

    core.answer = refuse
    with pytest.raises(UserError, match=f"core.url={url}: a prompt with 2 pictures$"):
        VLLMEngine(LAW, 0, RemoteCore(url)).generate(policy, prompts, 0)


def test_a_server_that_was_started_anew_is_sent_the_weights_again(policy, prompts):
    """Else it would sample with those of its folder, which a trained policy need not differ from by much."""
    first, second = (FakeCore(lambda n, _: Reply(prompts.ids[n // 3].tolist(), [1], [-1.0])) for _ in range(2))
    with served(first) as url:
        engine = VLLMEngine(replace(LAW, temperature=0.7), 0, RemoteCore(url))
        engine.generate(policy, prompts, 0)
    assert first.log == ["wake", "wake", "load", "generate", "sleep"]
    with served(second, int(url.rpartition(":")[2])):
        engine.generate(policy, prompts, 0)
        engine.generate(policy, prompts, 0)
    assert second.log == ["wake", "load", "generate", "sleep", "wake", "generate", "sleep"]
    assert second.plain is False


def test_a_server_with_weights_of_another_run_does_not_sample(policy, prompts, behind):
    core, url = behind
    one, other = RemoteCore(url), RemoteCore(url)
    for remote in (one, other):
        remote.load(named_weights(policy))
    asked = list(VLLMEngine(LAW, 0, core)._requests(policy, prompts, 0))
    with pytest.raises(UserError, match=r"has not this run's weights: it was started anew .* or another run uses it"):
        one.generate(asked, LAW, [], [])
    assert len(other.generate(asked, LAW, [], [])) == len(asked)


def share(port: int, rank: int) -> list[list[list[int]]]:
    """Each rank asks for a prompt of its own."""
    policy, encoder = load_policy(TINY), Encoder(load_processor(TINY), TEMPLATE)
    prompts = encoder([WORLD[rank]])
    engine = VLLMEngine(LAW, 0, RemoteCore(f"http://127.0.0.1:{port}"))
    return [[y.tolist() for y in group] for group in engine.generate(policy, prompts, 0).ids]


def test_ranks_that_share_a_server_send_the_weights_once(tmp_path):
    core = FakeCore()
    image = load_policy(TINY).hf.config.image_token_id
    core.answer = lambda n, r: Reply(expanded(r, image), [r.seed % 97, n], [-1.0, -1.0])
    with served(core) as url:
        found = on_two_ranks(partial(share, int(url.rpartition(":")[2])), tmp_path)
    assert core.log.count("load") == 1 and core.log.count("generate") == 2
    assert [[n for _, n in group] for (group,) in found] == [[0, 1, 2]] * 2
    assert found[0] != found[1], "other prompts, other seeds"


def expanded(request: Request, image: int) -> list[int]:
    place = request.ids.index(image)
    return [*request.ids[:place], *[image] * (request.length - len(request.ids) + 1), *request.ids[place + 1 :]]


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
