"""Advantages and losses of every method are those of one rank when two ranks share the prompts (gloo, CPU)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from common import TEMPLATE
from hydra.utils import instantiate
from methods import build_chain, compose, graded
from ranks import WORLD, on_two_ranks
from test_invariance import VARIANTS
from torch import Tensor, distributed

from mmcredit.algorithm.objective import loss_terms
from mmcredit.credit import Record, advantage_chain, reward_chain
from mmcredit.data.encode import Encoder
from mmcredit.launch import register_resolvers
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.parts import take
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import Weights
from mmcredit.types import Rollout

Measured = tuple[Tensor, dict[str, float]]


def measure(variant: str, rollout: Rollout, scorer: Scorer) -> Measured:
    """Advantage [B, G, T] of this rank's prompts, and its part of every loss term."""
    names, overrides = VARIANTS[variant]
    chain, algorithm = build_chain(*names, overrides=overrides), instantiate(compose().algorithm)
    scorer.forget()
    for method in chain:
        method.on_rollout(rollout, Record())
    rewarded = reward_chain(chain, rollout, scorer, Record())
    advantage = advantage_chain(chain, rewarded, algorithm.advantage(rewarded.reward_BG), scorer, Record())
    size = algorithm.reduction.size(rollout.mask_BGT)
    if distributed.is_initialized():
        distributed.all_reduce(size)
    terms, _ = loss_terms(algorithm, chain, scorer, rewarded, advantage, None, size, Record())
    return advantage, {key: float(value.detach()) for key, value in terms.items()}


def share(rollout: Rollout, models: dict[Weights, Any], processor: Any, rank: int) -> dict[str, Measured]:
    """All variants on every second prompt, beginning with the rank's first."""
    register_resolvers()
    torch.set_num_threads(1)
    scorer = Scorer({w: VisionLanguageModel(hf).eval() for w, hf in models.items()}, Encoder(processor, TEMPLATE))
    mine = take(rollout, range(rank, len(rollout.prompts), WORLD))
    return {variant: measure(variant, mine, scorer) for variant in VARIANTS}


@pytest.fixture(scope="module")
def rollout(make_rollout, make_scorer) -> Rollout:
    """Right and wrong answers on both ranks; old log-probs that differ from the policy's."""
    correct = torch.tensor(
        [
            [True, False, True, False],
            [True, False, False, False],
            [False, True, False, False],
            [True, True, False, True],
        ]
    )
    found = graded(make_rollout(seed=4, group=4), correct, make_scorer())
    noise = torch.randn(found.shape, generator=torch.Generator().manual_seed(0)) * found.mask_BGT
    return replace(found, logp_BGT=found.logp_BGT + 0.1 * noise)


@pytest.fixture(scope="module")
def ranks(rollout, make_scorer, processor, tmp_path_factory) -> list[dict[str, Measured]]:
    folder: Path = tmp_path_factory.mktemp("ranks")
    models = {weights: model.hf for weights, model in make_scorer().models.items()}
    return on_two_ranks(partial(share, rollout, models, processor), folder)


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_ranks_assign_the_credit_of_one(variant, ranks, rollout, make_scorer):
    advantage, losses = measure(variant, rollout, make_scorer())
    summed = Counter[str]()
    for rank, found in enumerate(ranks):
        part, terms = found[variant]
        torch.testing.assert_close(part, advantage[rank::WORLD], atol=1e-4, rtol=0)
        summed.update(terms)
    assert dict(summed) == pytest.approx(losses, abs=1e-5)
