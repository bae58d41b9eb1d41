"""vLLM behind HTTP: ``python -m mmcredit.serve`` in vLLM's environment, ``rollout=vllm_server`` in the trainer's.

Prompts and replies are JSON, pictures PNG, weights safetensors: nothing that is received is ever executed. The secret
in the environment variable ``MMCREDIT_SERVER_TOKEN``, if set on both sides, must be the same.
"""

from __future__ import annotations

import base64
import hmac
import io
import json
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from PIL import Image
from safetensors.torch import load, save
from torch import Tensor

from mmcredit.functional import gather, rank
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.rollout.vllm_core import Core, Reply, Request
from mmcredit.types import UserError

SHARD = 2**28  # bytes of weights a message, or one tensor if that is larger
TOKEN = "MMCREDIT_SERVER_TOKEN"
MISTAKE, STRANGER = 400, 403  # answers to a user's mistakes
NOTHING = "what it read from its folder"  # name of the weights before any are sent


class RemoteCore:
    """A ``Core`` at the other end of HTTP. Several ranks may share it: the first one sends the weights of all.

    Args:
        url: e.g. ``http://127.0.0.1:8177``.
        timeout: seconds for one answer: a whole rollout.

    Raises:
        UserError: nothing answers there.
    """

    def __init__(self, url: str, timeout: float = 3600.0) -> None:
        self.url, self.timeout, self.held = url.rstrip("/"), timeout, list[Any]()
        self.plain: bool | None = None
        self.sent = NOTHING  # name of the weights that this trainer sent last
        self.wake()

    def count_before_sampling(self, plain: bool) -> None:
        """See ``Core``."""
        self.plain = plain
        self._post("count", json.dumps(plain).encode())

    def generate(
        self, requests: Sequence[Request], law: SamplingLaw, forbidden: Sequence[int], ends: Sequence[int]
    ) -> list[Reply]:
        """See ``Core``. A picture that several requests share travels once."""
        pictures = {id(image): image for request in requests for image in request.images}
        places = {key: n for n, key in enumerate(pictures)}
        asked = [asdict(replace(r, images=())) | {"images": [places[id(i)] for i in r.images]} for r in requests]
        message = {"images": [_png(i) for i in pictures.values()], "requests": asked, "law": asdict(law)}
        message |= {"forbidden": list(forbidden), "ends": list(ends), "weights": self.sent}
        return [Reply(**reply) for reply in json.loads(self._post("generate", json.dumps(message).encode()))]

    def load(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """See ``Core``."""
        post = self._post if rank() == 0 else lambda what, body: b""
        name, shard, size = gather(secrets.token_hex(8))[0], dict[str, Tensor](), 0
        for key, weight in weights:  # which all ranks together make whole
            if shard and size + weight.nbytes > SHARD:
                post("weights", save(shard))
                shard, size = {}, 0
            if rank() == 0:
                shard[key] = weight.cpu().contiguous().clone()  # tied weights may not share memory in a file
                size += weight.nbytes
        post("weights", save(shard))
        post("load", name.encode())
        self.sent = gather(name)[0]  # they have arrived, on all ranks

    def sleep(self) -> None:
        """See ``Core``."""
        self._post("sleep", b"")

    def wake(self) -> None:
        """See ``Core``. If the server has other weights than it was sent, it is new: they will be sent again."""
        if self._post("wake", b"").decode() == self.sent:
            return
        self.held = []
        if self.plain is not None:
            self.count_before_sampling(self.plain)

    def _post(self, what: str, body: bytes) -> bytes:
        headers = {"Authorization": f"Bearer {os.environ.get(TOKEN, '')}"}
        request = urllib.request.Request(f"{self.url}/{what}", body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:500]
            if error.code in (MISTAKE, STRANGER):
                raise UserError(f"rollout.engine.core.url={self.url}: {said}") from None
            raise RuntimeError(f"{self.url}/{what}: {error.code} {said}") from None
        except OSError as error:
            raise UserError(
                f"rollout.engine.core.url={self.url} does not answer ({error}); start it in vLLM's environment: "
                "python -m mmcredit.serve model.path=..."
            ) from None


def serve(core: Core, host: str, port: int) -> HTTPServer:
    """A server for one trainer; call its ``serve_forever``."""
    received, loaded = dict[str, Tensor](), [NOTHING]

    def generate(body: bytes) -> bytes:
        message = json.loads(body)
        if message["weights"] != loaded[-1]:
            raise UserError(
                "the server has not this run's weights: it was started anew in the middle of a step, or another run "
                "uses it; a server is for one run"
            )
        pictures = [Image.open(io.BytesIO(base64.b64decode(png)), formats=["PNG"]) for png in message["images"]]
        asked = [Request(**r | {"images": tuple(pictures[n] for n in r["images"])}) for r in message["requests"]]
        replies = core.generate(asked, SamplingLaw(**message["law"]), message["forbidden"], message["ends"])
        return json.dumps([asdict(reply) for reply in replies]).encode()

    def weights(body: bytes) -> bytes:
        received.update(load(body))
        return b""

    def count(body: bytes) -> bytes:
        core.count_before_sampling(json.loads(body))
        return b""

    def take(body: bytes) -> bytes:
        whole = dict(received)
        received.clear()
        core.load(iter(whole.items()))
        loaded[:] = [body.decode()]
        return b""

    def wake(_: bytes) -> bytes:
        core.wake()
        return loaded[-1].encode()

    def sleep(_: bytes) -> bytes:
        core.sleep()
        return b""

    calls = {"count": count, "generate": generate, "weights": weights, "load": take, "sleep": sleep, "wake": wake}
    return HTTPServer((host, port), _handler(calls))


def _handler(calls: dict[str, Callable[[bytes], bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            wanted = f"Bearer {os.environ.get(TOKEN, '')}".encode()
            call = calls.get(self.path.strip("/"))
            if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), wanted):
                self._answer(STRANGER, f"the environment variable {TOKEN} differs: set it to the server's".encode())
            elif call is None:
                self._answer(404, b"unknown call")
            else:
                try:
                    self._answer(200, call(body))
                except UserError as error:
                    self._answer(MISTAKE, str(error).encode())
                except Exception as error:  # one bad message must not end the server
                    self._answer(500, f"{type(error).__name__}: {error}".encode())

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Says nothing of each call."""

    return Handler


def _png(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()
