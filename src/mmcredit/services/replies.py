"""Reading what a model replied."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_REPLY = 200_000  # characters; a longer reply is not read
_MARKS = re.compile(r'\\.|["{}]', re.DOTALL)


class InvalidJson(ValueError):
    """A reply without one complete JSON object."""


def json_object(text: str) -> dict[str, Any]:
    """The first complete JSON object of a reply: prose or a Markdown fence around it, and reasoning before
    ``</think>``, are skipped.

    Raises:
        InvalidJson: there is none, it is cut off, or the reply is longer than ``MAX_REPLY``.
    """
    if len(text) > MAX_REPLY:
        raise InvalidJson(f"reply of {len(text)} characters")
    text = text.rpartition("</think>")[2]
    depth, start, quoted = 0, 0, False
    for mark in _MARKS.finditer(text):
        if mark[0] == '"':
            quoted = depth > 0 and not quoted
        elif mark[0] == "{" and not quoted:
            start = start if depth else mark.start()
            depth += 1
        elif mark[0] == "}" and not quoted and depth:
            depth -= 1
            if depth == 0 and (found := _loads(text[start : mark.end()])) is not None:
                return found
    raise InvalidJson("no complete JSON object")


def _loads(text: str) -> dict[str, Any] | None:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
