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
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from PIL import Image
from safetensors.torch import load, save
from torch import Tensor

from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.rollout.vllm_core import Core, Reply, Request
from mmcredit.types import UserError

SHARD = 2**28  # bytes of weights a message, or one tensor if that is larger
TOKEN = "MMCREDIT_SERVER_TOKEN"


class RemoteCore:
    """A ``Core`` at the other end of HTTP.

    Args:
        url: e.g. ``http://127.0.0.1:8177``.
        timeout: seconds for one answer: a whole rollout.

    Raises:
        UserError: nothing answers there.
    """

    def __init__(self, url: str, timeout: float = 3600.0) -> None:
        self.url, self.timeout, self.held = url.rstrip("/"), timeout, list[int]()
        self._post("wake", b"")

    def count_before_sampling(self, plain: bool) -> None:
        """See ``Core``."""
        self._post("count", json.dumps(plain).encode())

    def generate(self, requests: Sequence[Request], law: SamplingLaw, forbidden: Sequence[int]) -> list[Reply]:
        """See ``Core``. A picture that several requests share travels once."""
        pictures = {id(image): image for request in requests for image in request.images}
        places = {key: n for n, key in enumerate(pictures)}
        asked = [{"ids": r.ids, "images": [places[id(i)] for i in r.images], "seed": r.seed} for r in requests]
        message = {"images": [_png(i) for i in pictures.values()], "requests": asked, "law": asdict(law)}
        found = json.loads(self._post("generate", json.dumps(message | {"forbidden": list(forbidden)}).encode()))
        return [Reply(**reply) for reply in found]

    def load(self, weights: Iterator[tuple[str, Tensor]]) -> None:
        """See ``Core``."""
        shard, size = dict[str, Tensor](), 0
        for name, weight in weights:
            if shard and size + weight.nbytes > SHARD:
                self._post("weights", save(shard))
                shard, size = {}, 0
            shard[name] = weight.cpu().contiguous().clone()  # tied weights may not share memory in a file
            size += weight.nbytes
        self._post("weights", save(shard))
        self._post("load", b"")

    def sleep(self) -> None:
        """See ``Core``."""
        self._post("sleep", b"")

    def wake(self) -> None:
        """See ``Core``."""
        self._post("wake", b"")

    def _post(self, what: str, body: bytes) -> bytes:
        headers = {"Authorization": f"Bearer {os.environ.get(TOKEN, '')}"}
        request = urllib.request.Request(f"{self.url}/{what}", body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise RuntimeError(
                f"{self.url}/{what}: {error.code} {error.read().decode(errors='replace')[:500]}"
            ) from None
        except OSError as error:
            raise UserError(
                f"rollout.engine.core.url={self.url} does not answer ({error}); start it in vLLM's environment: "
                "python -m mmcredit.serve model.path=..."
            ) from None


def serve(core: Core, host: str, port: int) -> HTTPServer:
    """A server for one trainer; call its ``serve_forever``."""
    received: dict[str, Tensor] = {}

    def generate(body: bytes) -> bytes:
        message = json.loads(body)
        pictures = [Image.open(io.BytesIO(base64.b64decode(png)), formats=["PNG"]) for png in message["images"]]
        asked = [Request(r["ids"], tuple(pictures[n] for n in r["images"]), r["seed"]) for r in message["requests"]]
        replies = core.generate(asked, SamplingLaw(**message["law"]), message["forbidden"])
        return json.dumps([asdict(reply) for reply in replies]).encode()

    def weights(body: bytes) -> bytes:
        received.update(load(body))
        return b""

    def count(body: bytes) -> bytes:
        core.count_before_sampling(json.loads(body))
        return b""

    def take(_: bytes) -> bytes:
        core.load(iter(received.items()))
        received.clear()
        return b""

    def nothing(call: Callable[[], None]) -> Callable[[bytes], bytes]:
        def done(_: bytes) -> bytes:
            call()
            return b""

        return done

    calls = {"count": count, "generate": generate, "weights": weights, "load": take}
    calls |= {"sleep": nothing(core.sleep), "wake": nothing(core.wake)}
    return HTTPServer((host, port), _handler(calls))


def _handler(calls: dict[str, Callable[[bytes], bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            wanted = f"Bearer {os.environ.get(TOKEN, '')}".encode()
            call = calls.get(self.path.strip("/"))
            if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), wanted):
                self._answer(403, f"{TOKEN} differs".encode())
            elif call is None:
                self._answer(404, b"unknown call")
            else:
                try:
                    self._answer(200, call(body))
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
