"""What the tests of judged methods share: a judge that answers by table, and random ragged rollouts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from mmcredit.services.service import Ready
from mmcredit.types import Grades, Prompts, Responses, Rollout, Sample

PICTURE = Image.new("RGB", (128, 128))
NOTES = {"reference": "\\boxed{1}", "pseudo_ground_truth": "a red circle", "key_facts": "one fact\n\n another "}


class TableJudge:
    """Answers by response text; remembers what it was asked, one list a submit."""

    name = "judge=table"

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked, self.counters = answers, list[list[Any]](), Counter[str]()

    def submit(self, requests: Sequence[Any]) -> Ready[Any]:
        self.asked.append(list(requests))
        return Ready([self.answers[r.response] for r in requests], 0.0)


def make_rollout(
    samples: Sequence[Sample],
    texts: Sequence[Sequence[str]],
    correct: Sequence[Sequence[bool]],
    well_formed: Sequence[Sequence[bool]],
    reward: Sequence[Sequence[float]] | None = None,
    step: int = 0,
) -> Rollout:
    """A rollout of these responses; one token a word. The reward so far is correctness, unless it is given."""
    b, g = len(texts), len(texts[0])
    t = max(len(text.split()) for group in texts for text in group) + 1
    mask = torch.zeros(b, g, t, dtype=torch.bool)
    for i, group in enumerate(texts):
        for j, text in enumerate(group):
            mask[i, j, : len(text.split()) + 1] = True
    none = torch.zeros_like(mask)
    rule = torch.tensor(correct).float() if reward is None else torch.tensor(reward, dtype=torch.float64)
    prompts = Prompts(tuple(samples), (torch.zeros(1, dtype=torch.long),) * b, (None,) * b, (None,) * b)
    responses = Responses(mask.long(), mask, tuple(map(tuple, texts)), ())
    grades = Grades(rule, torch.tensor(correct), torch.tensor(well_formed), (), none)
    return Rollout(prompts, responses, grades, step, mask.double(), rule)


def random_case(seed: int, say: Any = None) -> tuple[random.Random, Rollout]:
    """Ragged responses, unique by their first word; a fifth of the samples have no annotations.

    Args:
        say: (rng, sample) -> further words of a response.
    """
    rng = random.Random(seed)
    b, g = rng.randint(2, 6), rng.randint(2, 5)
    samples = [Sample(str(i), (PICTURE,), "q", "a", meta=NOTES if rng.random() < 0.8 else {}) for i in range(b)]
    words = say or (lambda rng, sample: " ".join(rng.choices("abc", k=rng.randint(0, 60))))
    texts = [[f"{i}-{j} {words(rng, samples[i])}" for j in range(g)] for i in range(b)]
    correct = [[rng.random() < 0.5 for _ in range(g)] for _ in range(b)]
    well_formed = [[rng.random() < 0.5 for _ in range(g)] for _ in range(b)]
    reward = [[rng.choice([0.0, 0.1, 0.5, 0.9, 1.0]) for _ in range(g)] for _ in range(b)]
    return rng, make_rollout(samples, texts, correct, well_formed, reward, rng.randint(0, 900))


def places(rollout: Rollout) -> list[tuple[int, int]]:
    b, g, _ = rollout.shape
    return [(i, j) for i in range(b) for j in range(g)]
