"""The connection to an OpenAI-compatible server, and what its faults are called."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

from mmcredit.services.prompts import Failure

DETAIL = 200  # characters kept of a server's message


class Line:
    """A client with its event loop in a daemon thread: what is on its way can be cut off, and holds up no exit.

    Args:
        base_url: None is OpenAI's.
        key_env: environment variable of the key; ``EMPTY`` where it is not set.
        places: most requests at a time.
        seconds: longest wait for the server's next sign of life.
    """

    def __init__(self, base_url: str | None, key_env: str, places: int, seconds: float) -> None:
        from openai import AsyncOpenAI

        for library in ("httpx", "httpx2"):
            logging.getLogger(library).setLevel(logging.WARNING)  # one line a request otherwise
        key = os.environ.get(key_env, "").strip() or "EMPTY"
        self.client = AsyncOpenAI(api_key=key, base_url=base_url, max_retries=0, timeout=seconds)
        self.places = asyncio.Semaphore(places)
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="mmcredit-chat", daemon=True).start()

    def start(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run it in the loop; cancelling the future cuts it off."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def failure(self, error: Exception) -> Failure:
        """The kind of a fault. Only a server's own words are kept, without the key."""
        import openai

        if isinstance(error, openai.APIStatusError):
            words = " ".join(str(error).replace(self.client.api_key, "<key>").split())[:DETAIL]
            kinds = {429: "rate_limit"} | ({error.status_code: "server_error"} if error.status_code >= 500 else {})
            return Failure(kinds.get(error.status_code, "bad_request"), words)
        if isinstance(error, TimeoutError | openai.APITimeoutError):
            return Failure("timeout")
        if isinstance(error, openai.APIConnectionError):
            return Failure("connection", type(error.__cause__).__name__)
        if isinstance(error, openai.APIError | ValueError):
            return Failure("invalid_json", type(error).__name__)
        return Failure("unexpected", type(error).__name__)


def content(reply: Any) -> str:
    """The text of a completion; empty where the server sent something else (the SDK checks nothing)."""
    try:
        text = reply.choices[0].message.content
    except (AttributeError, IndexError, KeyError, TypeError):
        return ""
    return text if isinstance(text, str) else ""
