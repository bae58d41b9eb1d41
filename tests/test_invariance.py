"""Advantages and losses depend neither on micro-batches, nor on padding, packing or the order of prompts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
from hydra.utils import instantiate
from methods import NAMES, build_chain, compose, graded, reordered, widened
from torch import Tensor

from mmcredit.algorithm.objective import loss_terms
from mmcredit.credit import CreditCallback, Record, advantage_chain, reward_chain
from mmcredit.scoring.scorer import Scorer
from mmcredit.types import Rollout

VARIANTS = {name: ((name,), ()) for name in NAMES}
VARIANTS["papo, both gradients"] = (("papo",), ("callbacks.papo.masked_grad=true", "callbacks.papo.gamma=0.5"))
VARIANTS["pacg, no routing"] = (("pacg",), ("callbacks.pacg.routing=false", "callbacks.pacg.positive_only=false"))
VARIANTS["opsd, reward kept"] = (("opsd",), ("callbacks.opsd.keep_reward=true", "callbacks.opsd.coef=0.3"))
VARIANTS["vppo, papo, pacg"] = (("vppo", "papo", "pacg"), ("callbacks.papo.entropy_original=0.1",))
ORDER = [2, 0, 3, 1]


@pytest.fixture(params=VARIANTS)
def chain(request) -> list[CreditCallback]:
    names, overrides = VARIANTS[request.param]
    return build_chain(*names, overrides=overrides)


@pytest.fixture(scope="module")
def rollout(make_rollout, make_scorer) -> Rollout:
    """Right and wrong answers; old log-probs that differ from the policy's, so that ratios do from 1."""
    correct = torch.tensor(
        [[True, False, True, False], [True] * 4, [False, True, False, False], [True, True, False, False]]
    )
    found = graded(make_rollout(seed=4, group=4), correct, make_scorer())
    noise = torch.randn(found.shape, generator=torch.Generator().manual_seed(0)) * found.mask_BGT
    return replace(found, logp_BGT=found.logp_BGT + 0.1 * noise)


def measure(
    chain: list[CreditCallback], rollout: Rollout, scorer: Scorer, micro_batch: int = 4
) -> tuple[Tensor, dict[str, float]]:
    """Final advantage, and every loss term summed over micro-batches."""
    algorithm, losses = instantiate(compose().algorithm), Counter[str]()
    for method in chain:
        method.on_rollout(rollout, Record())
    rewarded = reward_chain(chain, rollout, scorer, Record())
    advantage = advantage_chain(chain, rewarded, algorithm.advantage(rewarded.reward_BG), scorer, Record())
    size = algorithm.reduction.size(rollout.mask_BGT)
    for start in range(0, len(rollout.prompts), micro_batch):
        part = slice(start, start + micro_batch)
        terms, _ = loss_terms(algorithm, chain, scorer, rewarded.select(part), advantage[part], None, size, Record())
        losses.update({key: float(value.detach()) for key, value in terms.items()})
    return advantage, losses


def agree(found: tuple[Tensor, dict[str, float]], expected: tuple[Tensor, dict[str, float]]) -> None:
    torch.testing.assert_close(found[0], expected[0], atol=1e-3, rtol=0)
    assert found[1] == pytest.approx(expected[1], abs=1e-4)


def test_the_chain_does_something_here(chain, rollout, make_scorer):
    """Else the tests below would hold for nothing; but for methods that act when responses are sampled."""
    advantage, losses = measure(chain, rollout, make_scorer())
    plain, alone = measure([], rollout, make_scorer())
    changed = not torch.allclose(advantage, plain, atol=1e-2) or bool(losses.keys() - alone.keys())
    assert changed or all(method.sampling_edits(0) for method in chain)


@pytest.mark.parametrize("micro_batch", [1, 3])
def test_micro_batches(chain, rollout, make_scorer, micro_batch):
    agree(measure(chain, rollout, make_scorer(), micro_batch), measure(chain, rollout, make_scorer()))


def test_order_of_prompts(chain, rollout, make_scorer):
    advantage, losses = measure(chain, rollout, make_scorer())
    agree(measure(chain, reordered(rollout, ORDER), make_scorer(), 3), (advantage[ORDER], losses))


def test_padding(chain, rollout, make_scorer, policy, monkeypatch):
    """More columns after the responses; and rows of a pass padded on their left."""
    predictors = policy.predictors
    advantage, losses = expected = measure(chain, rollout, make_scorer())
    wide = measure(chain, widened(rollout, 3), make_scorer())
    assert not wide[0][..., rollout.shape[2] :].any()
    agree((wide[0][..., : rollout.shape[2]], wide[1]), expected)
    monkeypatch.setattr(policy, "predictors", lambda rows, left_pad=False: predictors(rows, True))
    agree(measure(chain, rollout, make_scorer()), (advantage, losses))


@pytest.mark.parametrize("options", [{"packed": False}, {"token_budget": 1}], ids=str)
def test_packing(chain, rollout, make_scorer, options):
    agree(measure(chain, rollout, make_scorer(**options)), measure(chain, rollout, make_scorer()))
