"""What tests of all methods share: building one from its yaml, and rollouts that every method can work on."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import hydra
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import Tensor
from torch.nn.functional import pad

import mmcredit.configs
from mmcredit.credit import CreditCallback
from mmcredit.scoring.views import View
from mmcredit.services.claims import ClaimSpan, Routing
from mmcredit.services.judge import FactRequest, Score
from mmcredit.services.router import LocalRouter
from mmcredit.services.service import LocalService
from mmcredit.types import Rollout, Sample

NAMES = sorted(p.stem for p in (Path(mmcredit.configs.__file__).parent / "callbacks").glob("*.yaml"))
SMALL = ["++callbacks.pacg.min_residual=1"]  # the random responses have at most nine tokens ...
SMALL += ["++callbacks.perception_r1.judge._target_=methods.LengthJudge"]  # ... and state no fact


class ThirdRouter(LocalRouter):
    """The first third of every response is a direct visual claim."""

    name = "router=third"

    def route(self, sample: Sample, response: str) -> Routing:
        text = response[: len(response) // 3]
        span = ClaimSpan(text, "direct_vef", True, "direct", True, False, "asserted", False)
        return Routing(((span, (0, len(text))),) if text else ())


class LengthJudge(LocalService[FactRequest, Score]):
    """The share of facts grows with the response."""

    name = "judge=length"

    def answer(self, request: FactRequest) -> Score:
        return Score(min(len(request.response) / 40, 1.0))


def compose(*overrides: str) -> DictConfig:
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = hydra.compose("fit", overrides=["run_dir=.", *SMALL, *overrides])
    config.router = {"_target_": "methods.ThirdRouter"}
    return config


def build_chain(*names: str, overrides: tuple[str, ...] = ()) -> list[CreditCallback]:
    """The methods in this order, as ``callbacks=[...]`` gives them."""
    config = compose(f"callbacks=[{','.join(names)}]", *overrides)
    return [instantiate(config.callbacks[name]) for name in names]


def build(name: str) -> CreditCallback:
    return build_chain(name)[0]


def graded(rollout: Rollout, correct: Tensor, scorer: Any) -> Rollout:
    """The rollout with these answers right, up to three wrong ones, a two-token answer span, and its own log-probs."""
    answer = torch.zeros_like(rollout.mask_BGT)
    answer[..., :2] = rollout.mask_BGT[..., :2]
    grades = replace(rollout.grades, correct_BG=correct, reward_BG=correct.float(), answer_BGT=answer)
    said = [["right" if right else f"wrong {g % 3}" for g, right in enumerate(group)] for group in correct.tolist()]
    grades = replace(grades, answers=tuple(map(tuple, said)))
    rollout = replace(rollout, grades=grades, reward_BG=correct.float())
    return replace(rollout, logp_BGT=scorer.logp(rollout, View()).clone())


def cut(rollout: Rollout, b: int, g: int, length: int) -> Rollout:
    """The rollout with one response cut to this length, 0 included."""
    r = rollout.responses
    mask = r.mask_BGT.clone()
    mask[b, g, length:] = False
    spans = [list(group) for group in r.spans]
    spans[b][g] = spans[b][g][:length]
    texts = [list(group) for group in r.texts]
    texts[b][g] = texts[b][g][: spans[b][g][-1][1] if length else 0]
    responses = replace(
        r,
        ids_BGT=r.ids_BGT * mask,
        mask_BGT=mask,
        texts=tuple(map(tuple, texts)),
        spans=tuple(map(tuple, spans)),
    )
    return replace(rollout, responses=responses)


def reordered(part: Any, order: list[int]) -> Any:
    """The same prompts in another order: every tensor and tuple inside is indexed by prompt."""
    if is_dataclass(part):
        return replace(part, **{f.name: reordered(getattr(part, f.name), order) for f in fields(part)})
    if isinstance(part, Tensor):
        return part[order]
    return tuple(part[i] for i in order) if isinstance(part, tuple) else part


def widened(rollout: Rollout, columns: int) -> Rollout:
    """More padding after the responses."""
    r, k = rollout.responses, rollout.grades
    responses = replace(r, ids_BGT=pad(r.ids_BGT, (0, columns)), mask_BGT=pad(r.mask_BGT, (0, columns)))
    grades = replace(k, answer_BGT=pad(k.answer_BGT, (0, columns)))
    return replace(rollout, responses=responses, grades=grades, logp_BGT=pad(rollout.logp_BGT, (0, columns)))
