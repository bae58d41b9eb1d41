"""Parts that tests put into a run in place of the real ones, by ``_target_``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mmcredit.credit import CreditCallback
from mmcredit.data.world.source import World
from mmcredit.functional import across_ranks
from mmcredit.observers.checkpoint import Checkpoint
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.sampling import Sampled
from mmcredit.types import Grades, Prompts, Responses, Sample


class Ruled:
    """Every answer is right (or, ``right=False``, wrong), except that every second one to the ``mixed`` prompts is not.

    With ``one_in=n``, the mixed prompts are every n-th of those met.
    """

    def __init__(self, mixed: Sequence[str] = (), one_in: int = 0, right: bool = True, **_: Any) -> None:
        self.mixed, self.one_in, self.right, self.met = set(mixed), one_in, right, 0

    def __call__(self, prompts: Prompts, responses: Responses) -> Grades:
        b, g, _ = responses.ids_BGT.shape
        correct = torch.full((b, g), self.right)
        for i, sample in enumerate(prompts.samples):
            self.met += 1
            if sample.id in self.mixed or (self.one_in and self.met % self.one_in == 0):
                correct[i, ::2] = not self.right
        answers = tuple(("a",) * g for _ in range(b))
        answer_BGT = responses.mask_BGT & (torch.arange(responses.mask_BGT.shape[2]) < 2)
        return Grades(correct.float(), correct, torch.ones_like(correct), answers, answer_BGT)


class OtherEngine(HFEngine):
    """Samples as ever, but like an engine whose log-probs are not the trainer's."""

    def generate(self, *args: Any, **options: Any) -> Sampled:
        return super().generate(*args, **options)._replace(exact=False)


class PartlyBlind:
    """World samples, some of them without their picture."""

    def __init__(self, text_only: Sequence[int], size: int, **options: Any) -> None:
        self.world, self.text_only = World(size=size, **options), set(text_only)

    def __len__(self) -> int:
        return len(self.world)

    def __getitem__(self, index: int) -> Sample:
        sample = self.world[index]
        return replace(sample, images=(), proposal_bbox=None) if index in self.text_only else sample


class Centred(CreditCallback):
    """Needs all ranks: subtracts the mean reward of the whole batch."""

    paper = "https://example.org"
    needs_old_logp = False

    def on_reward(self, rollout, scorer, record):
        return rollout.reward_BG - across_ranks(rollout.reward_BG.flatten()).mean()


class Idle(CreditCallback):
    """Changes nothing, but has the old log-probs scored by themselves."""

    paper = "https://example.org"


class Witness(CreditCallback):
    """Writes down the ids of every data batch that is drawn, and changes nothing."""

    paper = "https://example.org"
    needs_old_logp = False

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def on_rollout(self, rollout, record):
        with self.path.open("a") as file:
            file.write(" ".join(sample.id for sample in rollout.prompts.samples) + "\n")


class Stuck(CreditCallback):
    """Says that a step has begun, and never ends it."""

    paper = "https://example.org"
    needs_old_logp = False

    def __init__(self, marker: str, step: int) -> None:
        self.marker, self.step = Path(marker), step

    def on_rollout(self, rollout, record):
        if rollout.step + 1 == self.step:
            self.marker.touch()
            time.sleep(600)


class HalfWritten(Checkpoint):
    """Says that a checkpoint is half written, and never ends it."""

    def __init__(self, marker: str, step: int, **options: Any) -> None:
        super().__init__(**options)
        self.marker, self.step = Path(marker), step

    def _publish(self, partial: Path) -> None:
        if partial.name.startswith(f"step-{self.step}."):
            parts = [p for p in partial.iterdir() if p.is_file()] if partial.is_dir() else [partial]
            largest = max(parts, key=lambda part: part.stat().st_size)
            os.truncate(largest, largest.stat().st_size // 2)
            self.marker.touch()
            time.sleep(600)
        super()._publish(partial)
