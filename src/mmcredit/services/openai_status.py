"""Labels of claims from a chat model that sees the picture (PACG: Qwen3.8-max); temperature 0. The wording is ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mmcredit.services.claim_status import Labelled, StatusRequest
from mmcredit.services.judge_prompts import MATERIAL, RETRY, prompt
from mmcredit.services.openai_judge import ChatJudge, reader
from mmcredit.services.prompts import Picture, Prompt, Task

CHECK = f"""\
You get a question about one or more pictures, a trace, and claims that the trace makes about the pictures. Look, and
say of every claim: "supported" if the pictures show it, "contradicted" if they show otherwise, "unsupported" if they
show neither. Do not judge the final answer. {MATERIAL}

{{"statuses": ["supported", "contradicted"]}}   one for every claim, in their order"""


@dataclass(frozen=True)
class Checked:
    """Reply to ``CHECK``."""

    statuses: tuple[Literal["supported", "contradicted", "unsupported"], ...]


class OpenAIStatus(ChatJudge[StatusRequest, Checked, Labelled]):
    """Asks a chat model which claims the picture bears out."""

    task = Task(reader(Checked), RETRY, version="status-1", without="left out")
    failed = Labelled

    def prompts(self, request: StatusRequest) -> list[Prompt]:
        claims = {str(i): request.response[slice(*where)] for i, where in enumerate(request.claims, 1)}
        trace = request.response[: self.max_chars]
        asked = prompt(CHECK, {"question": request.sample.question, "trace": trace, "claims": claims})
        return [Prompt(asked.system, asked.user, tuple(map(Picture, request.sample.images)))]

    def answer(self, request: StatusRequest, replies: Sequence[Checked]) -> Labelled:
        found = replies[0].statuses
        return Labelled(found) if len(found) == len(request.claims) else Labelled(failure="wrong_count")
