"""A checkpoint as a model of lmms-eval: ``lmms-eval --model mmcredit --model_args pretrained=<run>/policy``.

Found by the entry point; ``lmms_eval`` must be installed. Tasks that compare the likelihood of options, and those of
several rounds, are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval.api.model import lmms

from mmcredit.integrations.chat import ChatModel, Request
from mmcredit.rollout.sampling import SamplingLaw


class LmmsEvalModel(lmms):
    """Greedy where a task asks for it, else sampled; copies of a question (``--repeats``) have draws of their own.

    Args:
        pretrained: folder or hub name.
        dtype, device, seed: as in ``ChatModel``.
        batch_size: requests encoded at a time.
        max_new_tokens: where a task says nothing.
    """

    is_simple = False

    def __init__(
        self,
        pretrained: str,
        dtype: str = "float32",
        device: str | None = None,
        seed: int = 0,
        batch_size: int | str = 16,
        max_new_tokens: int = 2048,
        **others: Any,
    ) -> None:
        super().__init__()
        if unknown := sorted(name for name, value in others.items() if value is not None and name not in IGNORED):
            raise ValueError(f"--model_args: mmcredit has no {', '.join(unknown)}")
        self.max_new_tokens = int(max_new_tokens)
        self.model = ChatModel(pretrained, dtype, device, int(seed), int(batch_size))

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Answers to instances with arguments (context, doc_to_messages, settings, document, task, split)."""
        asked, times = [], Counter[str]()
        for request in requests:
            _, doc_to_messages, settings, doc_id, task, split = request.args
            name = f"{task}/{split}/{doc_id}"
            messages = doc_to_messages(self.task_dict[task][split][doc_id])
            law, until = law_of(settings, self.max_new_tokens)
            asked.append(Request(name, parts_of(messages, name), law, times[name], until))
            times[name] += 1
        return self.model(asked)

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        raise NotImplementedError("mmcredit answers generate_until tasks; this one compares likelihoods")

    def generate_until_multi_round(self, requests: Sequence[Any]) -> list[str]:
        raise NotImplementedError("mmcredit answers generate_until tasks; this one has several rounds")


IGNORED = {"max_batch_size"}  # what the command line always passes


def law_of(settings: Mapping[str, Any], max_new_tokens: int) -> tuple[SamplingLaw, tuple[str, ...]]:
    """The sampling law of a task's ``generation_kwargs``, and what ends an answer.

    Raises:
        ValueError: beam search.
    """
    if (settings.get("num_beams") or 1) > 1:
        raise ValueError(f"num_beams={settings['num_beams']}: mmcredit samples, it has no beam search")
    temperature = float(settings.get("temperature") or 0.0)
    if settings.get("do_sample") is False:
        temperature = 0.0
    until = settings.get("until") or ()
    top_p = float(settings.get("top_p") or 1.0) if temperature else 1.0
    law = SamplingLaw(1, temperature, top_p, int(settings.get("max_new_tokens") or max_new_tokens))
    return law, (until,) if isinstance(until, str) else tuple(until)


def parts_of(messages: Sequence[Mapping[str, Any]], name: str) -> tuple[Any, ...]:
    """Texts and pictures of one turn; a system message stands before the user's.

    Raises:
        ValueError: another role, sound or film.
    """
    parts: list[Any] = []
    for message in messages:
        if message["role"] not in ("user", "system"):
            raise ValueError(f"{name}: mmcredit answers one turn, this has a message of {message['role']!r}")
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] not in ("text", "image"):
                raise ValueError(f"{name}: mmcredit reads texts and pictures, this has {part['type']!r}")
            url = part.get("url")
            parts.append(part["text"] if part["type"] == "text" else Path(url) if isinstance(url, str) else url)
    return tuple(parts)
