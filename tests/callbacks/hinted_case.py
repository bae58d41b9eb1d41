"""What the tests of methods with a hinted teacher share: random ragged batches, a teacher whose log-probs are a hash of
what it sees, and hints chosen by a literal reading of METHODS sections 5 and 6."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import torch
from PIL import Image
from torch import Tensor

from mmcredit.functional import stable_rng
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Grades, Prompts, Responses, Rollout, Sample

ATOL = 1e-6  # float64 against Python floats
PICTURE = Image.new("RGB", (32, 32))
HINT = "Privileged candidate answer: "
SAME: dict[str | None, str | None] = {  # answers and what they are the same as; None is no answer
    "2": "2",
    "two": "2",
    "2.0": "2",
    "7": "7",
    "red": "red",
    "Red": "red",
    "RED.": "red",
    "\\text{blue}": "blue",
    "blue": "blue",
    "dark  blue": "dark blue",
    "É": "é",
    "e\u0301": "é",
    "": None,
    "$ $": None,
    None: None,
}


class HintedScores:
    """A teacher whose log-prob of a token is a hash of image, hint and response, 0 where it is not asked for."""

    def __init__(self, scale: float = 0.3) -> None:
        self.scale, self.asked, self.views = scale, [], ()

    def of(self, rollout: Rollout, b: int, g: int, line: str, image: str = "Original") -> list[float]:
        """Log-probs of the tokens of one response."""
        seen = image if rollout.prompts.samples[b].images else "no image"
        rng = stable_rng(line, seen, rollout.responses.texts[b][g])
        return [-1 + self.scale * rng.uniform(-1, 1) for _ in range(int(rollout.mask_BGT[b, g].sum()))]

    def logp(self, rollout: Rollout, view: View, where_BG: Tensor | None = None) -> Tensor:
        return self.logps(rollout, [view], where_BG)[0]

    def logps(self, rollout: Rollout, views: Sequence[View], where_BG: Tensor | None = None) -> list[Tensor]:
        assert where_BG is not None
        self.views, found = tuple(views), []
        for view in views:
            assert view.weights is Weights.TEACHER and view.hints is not None
            found.append(torch.zeros(rollout.shape, dtype=torch.float64))
            for b, lines in enumerate(view.hints.lines):
                for g, line in enumerate(lines):
                    if line is not None and where_BG[b, g]:
                        image = type(view.image).__name__
                        row = torch.tensor(self.of(rollout, b, g, line, image), dtype=torch.float64)
                        found[-1][b, g, : len(row)] = row
                        self.asked.append((b, g, line, image))
        return found


def make_rollout(
    samples: Sequence[Sample],
    lengths: Sequence[Sequence[int]],
    answers: Sequence[Sequence[str | None]],
    correct: Sequence[Sequence[bool]],
    reward: Sequence[Sequence[float]] | None = None,
    step: int = 0,
) -> Rollout:
    """Responses of the given lengths and answers; each has a text of its own."""
    b, g, t = len(samples), len(lengths[0]), max(1, *(n for group in lengths for n in group))
    mask = torch.arange(t) < torch.tensor(lengths)[..., None]
    texts = tuple(tuple(f"{i}-{j}" for j in range(g)) for i in range(b))
    prompts = Prompts(tuple(samples), (torch.zeros(1, dtype=torch.long),) * b, (None,) * b, (None,) * b)
    right = torch.tensor(correct)
    rewards = right.double() if reward is None else torch.tensor(reward, dtype=torch.float64)
    grades = Grades(rewards, right, right, tuple(map(tuple, answers)), torch.zeros_like(mask))
    generator = torch.Generator().manual_seed(b * 100 + g * 10 + t)
    logp = (-1 + 0.3 * (2 * torch.rand(mask.shape, generator=generator, dtype=torch.float64) - 1)) * mask
    return Rollout(prompts, Responses(mask.long(), mask, texts, ()), grades, step, logp, rewards)


def random_case(seed: int, group: int | None = None, uniform: bool = False) -> tuple[Rollout, Tensor]:
    """A ragged batch with text-only prompts, empty and one-token responses, missing golds and answers, and its
    advantage: of whole responses (``uniform``) or, in every third case, of tokens as a method before leaves it."""
    rng = random.Random(seed)
    b, g, t = rng.randint(1, 6), group or rng.randint(2, 6), rng.randint(1, 9)
    samples, answers, correct = [], [], []
    for i in range(b):
        few = rng.sample(list(SAME), rng.randint(1, 6))
        gold = rng.choice(list(SAME)) or ""
        samples.append(Sample(str(i), (PICTURE,) if rng.random() < 0.8 else (), "q", gold))
        answers.append([rng.choice(few) for _ in range(g)])
        correct.append([SAME[a] is not None and rng.random() < 0.4 for a in answers[-1]])
    lengths = [[rng.choice([0, 1, *range(1, t + 1)]) for _ in range(g)] for _ in range(b)]
    reward = [[rng.choice([0.0, 0.1, 1.0]) for _ in range(g)] for _ in range(b)]
    rollout = make_rollout(samples, lengths, answers, correct, reward, step=rng.randint(0, 12))
    generator = torch.Generator().manual_seed(seed)
    advantage = torch.randn(b, g, 1, generator=generator, dtype=torch.float64)
    advantage *= torch.rand(b, g, 1, generator=generator) < 0.7
    if not uniform and seed % 3 == 2:
        advantage = advantage + torch.randn(rollout.shape, generator=generator, dtype=torch.float64).round()
    return rollout, advantage * rollout.mask_BGT


def permuted(rollout: Rollout, order: Sequence[int]) -> Rollout:
    """The responses of each group in another order."""
    r, k, index = rollout.responses, rollout.grades, list(order)
    moved = replace(
        r, ids_BGT=r.ids_BGT[:, index], mask_BGT=r.mask_BGT[:, index], texts=tuple(pick(x, index) for x in r.texts)
    )
    grades = replace(
        k,
        reward_BG=k.reward_BG[:, index],
        correct_BG=k.correct_BG[:, index],
        answers=tuple(pick(x, index) for x in k.answers),
    )
    return replace(
        rollout,
        responses=moved,
        grades=grades,
        logp_BGT=rollout.logp_BGT[:, index],
        reward_BG=rollout.reward_BG[:, index],
    )


def pick(values: Sequence, index: Sequence[int]) -> tuple:
    return tuple(values[i] for i in index)


def responses_of(rollout: Rollout) -> list[tuple[int, int, int]]:
    """(prompt, response, length) of every response."""
    b, g, _ = rollout.shape
    return [(i, j, int(rollout.mask_BGT[i, j].sum())) for i in range(b) for j in range(g)]


def meaning(answer: str | None) -> str | None:
    return SAME.get(answer, answer)


def right_line(rollout: Rollout, b: int) -> str | None:
    gold = rollout.prompts.samples[b].answer
    return None if meaning(gold) is None else HINT + " ".join(gold.split())


def wrong_lines(rollout: Rollout, b: int, g: int) -> list[str]:
    """Distinct wrong answers of the siblings, not the response's own: the frequent first, then by what they mean."""
    answers, correct = rollout.grades.answers[b], rollout.grades.correct_BG[b].tolist()
    siblings = [a for j, a in enumerate(answers) if j != g and not correct[j] and meaning(a) is not None]
    excluded = {meaning(answers[g]), meaning(rollout.prompts.samples[b].answer)}
    kinds = sorted({meaning(a) for a in siblings} - excluded)
    kinds.sort(key=lambda kind: -sum(meaning(a) == kind for a in siblings))
    return [HINT + spelling([a for a in siblings if meaning(a) == kind]) for kind in kinds]


def rejected_line(rollout: Rollout, b: int, g: int) -> str | None:
    """Wrong answer of the lowest-reward sibling that gave one; among equals as in ``wrong_lines``."""
    answers, correct = rollout.grades.answers[b], rollout.grades.correct_BG[b].tolist()
    gold, reward = meaning(rollout.prompts.samples[b].answer), rollout.reward_BG[b].tolist()
    found = []
    for j, a in enumerate(answers):
        if j != g and not correct[j] and meaning(a) not in (None, gold):
            found.append((reward[j], a))
    if not found:
        return None
    lowest = [a for r, a in found if r == min(r for r, _ in found)]
    kinds = sorted({meaning(a) for a in lowest})
    kind = max(kinds, key=lambda kind: sum(meaning(a) == kind for a in lowest))  # the first of equals
    return HINT + spelling([a for a in lowest if meaning(a) == kind])


def spelling(answers: list[str]) -> str:
    said = sorted(" ".join(a.split()) for a in answers)
    return max(said, key=said.count)  # the first of equals
