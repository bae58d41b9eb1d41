"""A checkpoint that answers messages of texts and pictures, for kits that bring their own questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL.Image import Image

from mmcredit.data.cells import Located
from mmcredit.data.images import open_image, read
from mmcredit.data.placeholders import PLACEHOLDER
from mmcredit.data.templates import Template
from mmcredit.evaluation.respond import Responder
from mmcredit.models.load import load_policy, own_device, set_up
from mmcredit.models.processor import load_processor
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.sampling import SamplingLaw
from mmcredit.types import Sample

BARE = Template("", ".*")


@dataclass(frozen=True, slots=True)
class Request:
    """One question of a kit.

    Example: ``Request("mmstar/test/7", (picture, "Which is larger?"), SamplingLaw(1, 0.0, 1.0, 32))``
    """

    name: str  # names the draws, together with the repetition
    parts: tuple[str | Image | Path, ...]  # texts and pictures (or their files) in order
    law: SamplingLaw
    repetition: int = 0  # of the same question
    until: tuple[str, ...] = ()  # the answer ends before the first of these


class ChatModel:
    """Answers requests. Equal laws and repetitions are sampled side by side; that does not change what is drawn.

    Args:
        path: folder or hub name of a model of a known family.
        dtype: of its weights.
        device: null: a GPU if there is one.
        seed: of the draws.
        batch: requests encoded at a time.

    Raises:
        UserError: unknown family or dtype.
    """

    def __init__(
        self, path: str, dtype: str = "float32", device: str | None = None, seed: int = 0, batch: int = 16
    ) -> None:
        self.processor, self.seed, self.batch = load_processor(path), seed, batch
        policy = load_policy(path, dtype).eval().requires_grad_(False)
        self.policy = set_up(policy, self.processor, torch.device(device) if device else own_device())

    def __call__(self, requests: Sequence[Request]) -> list[str]:
        """The answers, in order."""
        groups: dict[tuple[SamplingLaw, int], list[int]] = {}
        for place, request in enumerate(requests):
            groups.setdefault((request.law, request.repetition), []).append(place)
        answers = [""] * len(requests)
        for (law, repetition), places in groups.items():
            respond = Responder(self.policy, self.processor, HFEngine(law, self.seed), BARE)
            for start in range(0, len(places), self.batch):
                some = places[start : start + self.batch]
                found = respond([sample_of(requests[place]) for place in some], repetition)
                for place, prediction in zip(some, found, strict=True):
                    answers[place] = ended(prediction.prediction, requests[place].until)
        return answers


def sample_of(request: Request) -> Sample:
    """The request as a question with ``<image>`` where its pictures stand; such words of a kit's text are text."""
    images, words = [], []
    for part in request.parts:
        if isinstance(part, str):
            words.append(PLACEHOLDER.sub(lambda mark: f"image {mark[1] or ''}".strip(), part))
        else:
            images.append(open_image(part) if isinstance(part, Path) else read(Located("(given)", part))[0])
            words.append("<image>")
    return Sample(request.name, tuple(images), "".join(words), "")


def ended(text: str, until: Sequence[str]) -> str:
    """The text before the first of the given endings."""
    places = [text.find(end) for end in until if end and end in text]
    return text[: min(places)] if places else text
