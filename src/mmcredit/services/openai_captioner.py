"""A captioner behind an OpenAI-compatible server that sees the picture (PaLMR: Gemini); temperature 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmcredit.services.captioner import Description, SampleRequest
from mmcredit.services.judge import Score
from mmcredit.services.judge_prompts import MATERIAL, RETRY, prompt
from mmcredit.services.openai_judge import ChatJudge, reader
from mmcredit.services.prompts import Picture, Prompt, Task

DESCRIBE = f"""\
Describe what the picture shows, so that somebody who cannot see it could check any statement about it: every object,
with number and visible text or values; their relations and positions; their attributes, such as colour, size, shape.
Short phrases, only what is seen, no guesses, no answer to the question. Then list the key facts: the few visible facts
that the question below needs. {MATERIAL}

{{"objects": ["two red circles"], "relations": ["the left circle touches the square"],
 "attributes": ["the square is small"], "key_facts": ["two red circles"]}}"""

RELATE = f"""\
How far is the question about the picture, from 0.0 to 1.0? 1.0: it cannot be answered without looking. 0.5: the picture
helps, but the question can be answered without it. 0.0: they have nothing to do with each other. {MATERIAL}

{{"relevance": 0.9}}"""


@dataclass(frozen=True)
class Caption:
    """Reply to ``DESCRIBE``."""

    objects: tuple[str, ...]
    relations: tuple[str, ...]
    attributes: tuple[str, ...]
    key_facts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.objects:
            raise ValueError("no objects")


@dataclass(frozen=True)
class Related:
    """Reply to ``RELATE``."""

    relevance: float

    def __post_init__(self) -> None:
        if not 0 <= self.relevance <= 1:
            raise ValueError(f"relevance={self.relevance} outside 0..1")


def shown(instructions: str, sample: SampleRequest) -> list[Prompt]:
    """The question with its pictures."""
    pictures = tuple(map(Picture, sample.sample.images))
    return [replace(prompt(instructions, {"question": sample.sample.question}), pictures=pictures)]


class OpenAICaptioner(ChatJudge[SampleRequest, Caption, Description]):
    """Asks a chat model for objects, relations, attributes and key facts."""

    task = Task(reader(Caption), RETRY, version="caption-1", without="left out")
    failed = Description

    def prompts(self, request: SampleRequest) -> list[Prompt]:
        return shown(DESCRIBE, request)

    def answer(self, request: SampleRequest, replies: Sequence[Caption]) -> Description:
        said = replies[0]
        parts = {"Objects": said.objects, "Relations": said.relations, "Attributes": said.attributes}
        return Description("\n".join(f"{k}: {'; '.join(v)}." for k, v in parts.items() if v), said.key_facts)


class OpenAIRelevance(ChatJudge[SampleRequest, Related, Score]):
    """Asks a chat model how far a question is about its picture."""

    task = Task(reader(Related), RETRY, version="relevance-1", without="left out")
    failed = Score

    def prompts(self, request: SampleRequest) -> list[Prompt]:
        return shown(RELATE, request)

    def answer(self, request: SampleRequest, replies: Sequence[Related]) -> Score:
        return Score(replies[0].relevance)
