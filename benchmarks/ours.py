"""Steps of this project, built from the same configuration as ``python -m mmcredit.fit``, one at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hydra
import torch
from omegaconf import DictConfig
from torch import Tensor

from benchmarks.settings import Settings
from benchmarks.timing import Seconds
from mmcredit.build import build
from mmcredit.credit import CreditCallback
from mmcredit.launch import register_resolvers
from mmcredit.models.load import load_policy
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.reward.rule import RuleReward
from mmcredit.rollout.hf import HFEngine
from mmcredit.types import Grades, Prompts, Responses

BARE = ("run_dir=.", "logger=none", "observers=[]", "callbacks=[]", "steps=1")
UNTESTED = ("~data.val.val", "~data.val.counter_prior")  # no validation after the step that connects the module
FORCED = ("model.policy._target_=benchmarks.ours.load_endless",)  # every response has the longest length
NATURAL = ("rollout.max_new_tokens=48",)  # the bound of the default run, where responses end by themselves
MIXED = ("reward._target_=benchmarks.ours.HalfRight",)  # every group has credit to learn from
FIXED = ("optimizer.lr=0",)  # the work of an update without its effect: every step meets the same responses


class HalfRight(RuleReward):
    """The rule is applied, then every second response of a group is rewarded whatever it found."""

    def __call__(self, prompts: Prompts, responses: Responses) -> Grades:
        grades = super().__call__(prompts, responses)
        mixed_BG = (torch.arange(grades.reward_BG.shape[1]) % 2).float().expand_as(grades.reward_BG)
        return replace(grades, reward_BG=mixed_BG.clone())


class Endless(VisionLanguageModel):
    """A policy that no token ends: every response has the longest length."""

    @property
    def end_ids(self) -> Tensor:
        return torch.zeros(0, dtype=torch.long, device=self.device)


def load_endless(**options: Any) -> Endless:
    """``load_policy`` without an end."""
    return Endless(load_policy(**options).hf)


def composed(*overrides: str) -> DictConfig:
    """The configuration of ``mmcredit.fit`` without method, logger, observers and validation."""
    register_resolvers()
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        return hydra.compose("fit", overrides=[*BARE, *UNTESTED, *overrides])


class Steps:
    """Training steps on the same samples: encoding the prompts and the whole ``CreditModule.training_step``.

    Lightning's loop runs one step to connect the module; the others are called directly, so that they can take turns
    with something else. Its overhead around a step is left out, as the peer's is.
    """

    def __init__(self, settings: Settings, *overrides: str) -> None:
        n = settings.prompts
        sizes = (f"data.batch_size={n}", f"algorithm.mini_batch={n}", f"algorithm.micro_batch={n}")
        sampling = (f"rollout.group={settings.group}", f"rollout.max_new_tokens={settings.new_tokens}")
        self.cfg = composed(*sizes, *sampling, *overrides)
        self.run = build(self.cfg)
        self.module = self.run.module
        self.samples = [self.run.data.train[i] for i in range(n)]
        self.run.trainer.strategy.teardown = lambda: None  # type: ignore[method-assign]  # it would move models to CPU
        self.run.trainer.fit(self.module, datamodule=self.run.data)

    def encode(self) -> Prompts:
        """The samples as prompts."""
        assert self.run.data.encoder is not None
        return self.run.data.encoder(self.samples)

    def sampling(self, group: int, new_tokens: int) -> None:
        """Other sizes for the steps that follow."""
        engine = self.module.engine
        assert isinstance(engine, HFEngine)
        engine.law = replace(engine.law, group=group, max_new_tokens=new_tokens)

    def __call__(self, *chain: CreditCallback) -> Seconds:
        """Seconds of one step with a chain of methods, and of its stages."""
        self.module.chain = chain
        begin = time.perf_counter()
        prompts = self.encode()
        encoded = time.perf_counter()
        with self.run.trainer.precision_plugin.train_step_context():
            self.module.training_step(iter([(prompts, 0, 0)]))
        total = time.perf_counter() - begin
        assert self.module.report is not None
        return {"step": total, "data": encoded - begin, **self.module.report.record.seconds}


def tokens_seen(prompts: Prompts, group: int, new_tokens: int) -> int:
    """Prompt and response tokens of a step, the prompt counted once a response."""
    return group * sum(len(ids) + new_tokens for ids in prompts.ids)


def resized(samples: Sequence[Any], side: int) -> list[Any]:
    """The samples with square pictures of another size; boxes stay, no method reads them."""
    return [replace(s, images=tuple(image.resize((side, side)) for image in s.images)) for s in samples]
