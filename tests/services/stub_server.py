"""A chat server on localhost that answers by script."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SPAN = {
    "text": "a red circle",
    "span_group": "direct_vef",
    "is_vef": True,
    "vef_role": "direct",
    "requires_current_image": True,
    "contains_inference": False,
    "assertion_status": "asserted",
    "evidence_in_question_text": False,
    "evidence_status": "contradicted",
    "analysis_category": "supported_direct_vef",
}


def spans(*texts: str, **changes: Any) -> str:
    """A valid reply that marks these texts."""
    return json.dumps({"spans": [SPAN | {"text": text} | changes for text in texts]})


class Stub(ThreadingHTTPServer):
    """Answers request i by ``script(i, body)``: (status, content) or (status, content, content type); None closes the
    connection, a number of seconds hangs."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # a full queue resets connections

    def __init__(self, script: Callable[[int, dict[str, Any]], Any]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.bodies, self.keys = script, [], []
        self.lock, self.now, self.most = threading.Lock(), 0, 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request, client_address) -> None:
        """A client that went away is what is tested."""


class Handler(BaseHTTPRequestHandler):
    server: Stub

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            turn = len(server.bodies)
            server.bodies.append(body)
            server.keys.append(self.headers["Authorization"])
            server.now += 1
            server.most = max(server.most, server.now)
        try:
            self.answer(server.script(turn, body))
        finally:
            with server.lock:
                server.now -= 1

    def answer(self, what: Any) -> None:
        if isinstance(what, float):
            time.sleep(what)
            what = None
        if what is None:
            self.connection.close()
            return
        status, content, *kind = what
        data = content.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind[0] if kind else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Quiet."""


def said(text: str) -> tuple[int, str]:
    """A completion with this text."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return 200, json.dumps({"id": "1", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice]})


@contextmanager
def serving(script: Callable[[int, dict[str, Any]], Any] | list[Any]) -> Iterator[Stub]:
    """A running server; the last entry of a list is repeated."""
    scripted = script if callable(script) else lambda turn, _: script[min(turn, len(script) - 1)]
    stub = Stub(scripted)
    threading.Thread(target=stub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield stub
    finally:
        stub.shutdown()
        stub.server_close()
