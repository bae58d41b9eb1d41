"""A claim router behind an OpenAI-compatible server (vLLM, OpenAI, ...).

PACG, https://arxiv.org/abs/2609.36572v3, appendix I.1: annotation instructions, output schema and the sample to
annotate, with the question's pictures; temperature 0. Departures: (1) our own, shorter wording; (2) the labels that
training must not read (``evidence_status``, ``analysis_category``) and those nobody reads are not asked for; (3) the
paper does not say what happens to a reply with some invalid spans: here it is invalid as a whole, and asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mmcredit.services.asked import Asked
from mmcredit.services.chat import ChatService
from mmcredit.services.claims import MAX_SPANS, ClaimSpan, Routing, place
from mmcredit.services.prompts import Failure, Picture, Prompt, Task
from mmcredit.services.replies import json_object
from mmcredit.services.router import RoutingRequest, count_spans
from mmcredit.types import UserError

SYSTEM = "You annotate reasoning traces. Reply with exactly one JSON object: no Markdown, no other text."
RETRY = (
    'Retry {attempt}: reply with exactly one complete JSON object with a list "spans" of JSON objects that have all '
    "the keys above. No Markdown."
)
INSTRUCTIONS = f"""\
You get a question about one or more images and a trace: a model's reasoning towards the answer. Mark the spans of the
trace that state what is seen in the image, and tell them from what is derived. Whether a statement is true does not
matter: a wrong or invented observation is an observation all the same.

A span is the smallest complete proposition, copied from the trace character by character (LaTeX and spelling included,
no paraphrase, no translation). Incomplete phrases ("from the graph") are no spans. Where observation and inference
share a sentence, split it: "The velocity increases linearly" is seen, "indicating a constant acceleration" is derived.
At most {MAX_SPANS} spans; the trace need not be covered. In doubt, do not call a span direct_vef.

"span_group" is one of
  direct_vef       claims to read, describe, count or compare something in the image: attributes, text, values of a
                   chart, positions, relations, geometric marks. It needs the image: the question's text does not say
                   it. It contains no calculation, no general rule, no deduction, no judgement of an option, no answer.
  derived_vef      follows from such an observation.
  non_vef_control  knowledge, calculation, method, facts given in the question.
  other            anything else.
Statements that something is not given or cannot be determined are no direct_vef, unless they describe a visible blank.

Every span has all of these keys:
{{"spans": [{{
  "text": "exact substring of the trace",
  "span_group": "direct_vef",
  "is_vef": true,                        whether it works as visual evidence
  "vef_role": "direct",                  direct, derived or none
  "requires_current_image": true,
  "contains_inference": false,           therefore, so, hence, implying, which means, a calculation ...
  "assertion_status": "asserted",        asserted, hypothetical, uncertain or quoted_option
  "evidence_in_question_text": false     whether the question's text says it already
}}]}}
A trace without such statements gets {{"spans": []}}."""


class OpenAIRouter:
    """Asks a chat model which spans of a response claim to see something.

    Args:
        chat: the service to ask.
        send_images: show the question's pictures, as the paper does; False suits a model that cannot see.
        max_chars: characters of a response that are sent.

    Raises:
        UserError: ``max_chars`` below 1.
    """

    def __init__(self, chat: ChatService, send_images: bool = True, max_chars: int = 20_000) -> None:
        if max_chars < 1:
            raise UserError(f"router.max_chars={max_chars} must be at least 1")
        self.chat, self.send_images, self.max_chars = chat, send_images, max_chars
        self.task = Task(parse_spans, RETRY, version="spans-1", without="unit gates there")
        self.name = chat.name
        self.counters = chat.counters  # with ``spans`` and ``dropped`` besides

    def submit(self, requests: Sequence[RoutingRequest]) -> RoutingPending:
        """See ``Router``."""
        images = {id(i): i for r in requests for i in r.sample.images} if self.send_images else {}
        pictures = {key: Picture(image) for key, image in images.items()}
        prompts = []
        for r in requests:
            trace = r.response[: self.max_chars]
            payload = json.dumps({"question": r.sample.question, "trace": trace}, ensure_ascii=False)
            shown = tuple(pictures[id(i)] for i in r.sample.images if self.send_images)
            prompts.append(Prompt(SYSTEM, f"{INSTRUCTIONS}\n\nTo annotate:\n{payload}", shown))
        return RoutingPending(requests, self.chat.submit(prompts, self.task))


@dataclass(eq=False)
class RoutingPending:
    """Routings on their way."""

    requests: Sequence[RoutingRequest]
    asked: Asked[tuple[ClaimSpan, ...]]
    routings: list[Routing] | None = None

    def result(self) -> list[Routing]:
        """See ``Pending``."""
        if self.routings is None:
            answers = zip(self.requests, self.asked.result(), strict=True)
            self.routings = [
                Routing(failure=a.kind) if isinstance(a, Failure) else place(a, r.response) for r, a in answers
            ]
            count_spans(self.asked.counters, self.routings)
        return self.routings


def parse_spans(reply: str) -> tuple[ClaimSpan, ...]:
    """The spans of a reply; keys that ``ClaimSpan`` does not know are ignored.

    Raises:
        ValueError: no JSON object (``InvalidJson``), or not of the schema.
    """
    return span_adapter().validate_python(json_object(reply).get("spans"))


@cache
def span_adapter() -> Any:
    """Validates a list of spans."""
    from pydantic import TypeAdapter  # comes with the optional openai package

    return TypeAdapter(tuple[ClaimSpan, ...])
