"""What is asked of a chat model, and how its reply is read."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mmcredit.services.replies import InvalidJson

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer, and why."""

    kind: str  # see ChatService
    detail: str = ""  # for the log; never holds the key


class Picture:
    """An image as a message carries it; encoded when first needed. Share one between the prompts that show it."""

    def __init__(self, image: Image) -> None:
        self.image = image

    @cached_property
    def part(self) -> dict[str, Any]:
        """The part of a message: PNG as a data URL."""
        data = BytesIO()
        self.image.save(data, "PNG")
        url = "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
        return {"type": "image_url", "image_url": {"url": url}}


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request. Equal prompts are asked once a submit."""

    system: str
    user: str
    pictures: tuple[Picture, ...] = ()

    def messages(self, suffix: str = "") -> list[dict[str, Any]]:
        """The chat, with more text at its end."""
        text = f"{self.user}\n\n{suffix}" if suffix else self.user
        parts = [*(p.part for p in self.pictures), {"type": "text", "text": text}]
        return [
            {"role": "system", "content": self.system},
            {"role": "user", "content": parts if self.pictures else text},
        ]


@dataclass(frozen=True)
class Task(Generic[T]):
    """What all prompts of a kind have in common."""

    parse: Callable[[str], T]  # raises InvalidJson or another ValueError (wrong schema) for an invalid reply
    retry: str  # added to the prompt after an invalid reply; {attempt} counts from 1
    version: str  # of the reply's schema: another version is another cache entry
    without: str  # what happens to requests that fail, for the log: "unit gates there"

    def read(self, text: str) -> tuple[str, T] | Failure:
        """A reply and what it says."""
        try:
            return text, self.parse(text)
        except InvalidJson as error:
            return Failure("invalid_json", str(error))
        except ValueError as error:
            return Failure("invalid_schema", type(error).__name__)
