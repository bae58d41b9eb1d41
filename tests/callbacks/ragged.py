"""Random ragged batches in float64, and a scorer that returns given log-probs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace

import torch
from PIL import Image
from torch import Tensor

from mmcredit.scoring.views import View
from mmcredit.services.claims import ClaimSpan, Routing
from mmcredit.services.router import LocalRouter
from mmcredit.types import Grades, Prompts, Responses, Rollout, Sample

PICTURE = Image.new("RGB", (64, 64))
END, SPECIAL = 1, 2  # ids that are no text; words have ids from 10 on
KINDS = ("direct_vef", "derived_vef", "non_vef_control")


class GivenScores:
    """Log-probs under any changed picture, 0 where they are not asked for."""

    seed = 7

    def __init__(self, masked: Tensor) -> None:
        self.masked, self.views, self.where = masked, [], []
        self.encoder = SimpleNamespace(special_ids=torch.tensor([END, SPECIAL]))

    def logp(self, rollout: Rollout, view: View, where_BG: Tensor) -> Tensor:
        self.views.append(view)
        self.where.append(where_BG)
        return torch.where(rollout.mask_BGT & where_BG[..., None], self.masked, 0.0)


class GivenRouter(LocalRouter):
    """Answers by the text of a response; a text that it does not know has no claims."""

    name = "router=given"

    def __init__(self, routings: dict[str, Routing] | None = None) -> None:
        super().__init__()
        self.routings, self.asked = routings or {}, []

    def route(self, sample: Sample, response: str) -> Routing:
        self.asked.append((sample.id, response))
        return self.routings.get(response, Routing())


def claim(text: str, kind: str = "direct_vef") -> ClaimSpan:
    direct = kind == "direct_vef"
    return ClaimSpan(text, kind, kind != KINDS[2], "direct" if direct else "derived", direct, False, "asserted", False)


def written(ids: Sequence[int]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A word a token; the end token writes nothing."""
    text, spans = "", []
    for i in ids:
        start = len(text)
        text += "" if i == END else "<s>" if i == SPECIAL else f" w{i}"
        spans.append((start, len(text)))
    return text, tuple(spans)


def rollout_of(
    ids: Sequence[Sequence[Sequence[int]]], logp: Tensor, pictures: Sequence[bool], step: int = 3
) -> Rollout:
    """The rollout of these ids [B][G][T_i]; rewards are 0, grades empty."""
    b, g, t = logp.shape
    padded = torch.zeros(b, g, t, dtype=torch.long)
    mask = torch.zeros(b, g, t, dtype=torch.bool)
    for i, group in enumerate(ids):
        for j, row in enumerate(group):
            padded[i, j, : len(row)] = torch.tensor(row, dtype=torch.long)
            mask[i, j, : len(row)] = True
    found = [[written(row) for row in group] for group in ids]
    texts, spans = (tuple(tuple(pair[k] for pair in group) for group in found) for k in (0, 1))
    samples = tuple(Sample(str(i), (PICTURE,) * seen, "q", "a") for i, seen in enumerate(pictures))
    prompts = Prompts(samples, (torch.zeros(1, dtype=torch.long),) * b, (None,) * b, (None,) * b)
    no, nothing = torch.zeros(b, g, dtype=torch.bool), ((None,) * g,) * b
    grades = Grades(torch.zeros(b, g), no, no, nothing, torch.zeros_like(mask))
    return Rollout(prompts, Responses(padded, mask, texts, spans), grades, step, logp * mask, torch.zeros(b, g))


def random_rollout(seed: int, longest: int = 26) -> tuple[Rollout, Tensor, Tensor]:
    """Rollout, log-probs under the masked picture, and a token advantage of both signs and of 0.

    Text-only prompts, empty and one-token responses, special tokens inside and end tokens are among them.
    """
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    b, g = rng.randint(2, 5), rng.randint(2, 4)

    def response() -> list[int]:
        words = [
            rng.choice([SPECIAL, *range(10, 60)])
            for _ in range(rng.choice([0, 1, *(rng.randint(2, longest - 1) for _ in range(6))]))
        ]
        return words + [END] * rng.randint(0, 1)

    ids = [[response() for _ in range(g)] for _ in range(b)]
    logp = -2 * torch.rand(b, g, longest, generator=generator, dtype=torch.float64)
    masked = logp + 0.3 * torch.randn(b, g, longest, generator=generator, dtype=torch.float64)
    rollout = rollout_of(ids, logp, [rng.random() < 0.8 for _ in range(b)])
    advantage_BG = torch.randn(b, g, generator=generator, dtype=torch.float64) + 0.5
    advantage_BG[torch.rand(b, g, generator=generator) < 0.15] = 0.0
    kept = torch.rand(b, g, longest, generator=generator) < 0.8  # what an earlier method left
    return rollout, masked, advantage_BG[..., None] * kept * rollout.mask_BGT


def random_routing(rng: random.Random, response: str) -> Routing:
    """Overlapping spans of every kind, cut through the middle of words; sometimes none, sometimes a failure."""
    if rng.random() < 0.15:
        return Routing(failure=rng.choice(["timeout", "invalid_json"]))
    spans = []
    for _ in range(rng.randint(0, 4) if response else 0):
        start = rng.randrange(len(response))
        end = rng.randint(start + 1, min(len(response), start + 12))
        kind = rng.choices(KINDS, (3, 1, 1))[0]
        spans.append((claim(response[start:end], kind), (start, end)))
    return Routing(tuple(spans), dropped=rng.randint(0, 1))
