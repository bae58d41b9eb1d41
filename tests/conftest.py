"""Shared by all tests: one thread, one tiny random model, one small rollout with pictures, text and ragged lengths."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two threads on two busy cores are 30 times slower
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from common import TEMPLATE, WORLD

from mmcredit.data.encode import Encoder
from mmcredit.launch import register_resolvers
from mmcredit.models import flex
from mmcredit.models.load import frozen_copy
from mmcredit.models.processor import ImageOnlyProcessor
from mmcredit.models.tiny import build_model, build_processor, train_tokenizer
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.reward.rule import RuleReward
from mmcredit.reward.verifier import AnswerVerifier
from mmcredit.rollout.text import collate
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import Weights
from mmcredit.types import Prompts, Rollout, Sample

register_resolvers()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is left in the user's cache folder."""
    os.environ["MMCREDIT_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["MMCREDIT_CACHE"]


@pytest.fixture(scope="session")
def processor() -> ImageOnlyProcessor:
    texts = [TEMPLATE.render(WORLD.question(i).text) for i in range(32)]
    return build_processor(train_tokenizer(texts, 400))


@pytest.fixture(scope="session")
def policy(processor: ImageOnlyProcessor) -> VisionLanguageModel:
    """Random weights, spread so that predictions differ clearly from token to token."""
    model = build_model(processor.tokenizer, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3.0)
    return VisionLanguageModel(model).eval()


@pytest.fixture(scope="session")
def prompts(processor: ImageOnlyProcessor) -> Prompts:
    """One picture, two pictures of other sizes, text only, one picture."""
    one, two, three = WORLD[0], WORLD[1], WORLD[2]
    wide = two.images[0].resize((192, 96))
    samples = [
        one,
        Sample("two", (wide, three.images[0]), "which is bigger?", "a", "attribute", proposal_bbox=two.proposal_bbox),
        Sample("text", (), "what is one and one?", "2", ""),
        three,
    ]
    return Encoder(processor, TEMPLATE)(samples)


@pytest.fixture(scope="session")
def make_rollout(processor: ImageOnlyProcessor, prompts: Prompts) -> Callable[..., Rollout]:
    """Random ragged responses (lengths 1..9) to the prompts, graded; log-probs are zeros."""

    def make(seed: int = 0, group: int = 3, shown: Prompts = prompts) -> Rollout:
        generator = torch.Generator().manual_seed(seed)
        vocabulary = 300  # below the special tokens' ids
        sampled = [
            [
                torch.randint(
                    33, vocabulary, (int(torch.randint(1, 10, (), generator=generator)),), generator=generator
                )
                for _ in range(group)
            ]
            for _ in range(len(shown))
        ]
        end = processor.tokenizer.eos_token_id
        responses = collate(processor.tokenizer, sampled, [end])
        grades = RuleReward(AnswerVerifier(), TEMPLATE)(shown, responses)
        return Rollout(shown, responses, grades, 0, torch.zeros(responses.mask_BGT.shape), grades.reward_BG)

    return make


@pytest.fixture(scope="session")
def teacher(policy: VisionLanguageModel) -> VisionLanguageModel:
    """The policy as it was a few steps ago: slightly other weights."""
    model, generator = frozen_copy(policy), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 0.05 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.fixture(scope="session")
def make_scorer(
    policy: VisionLanguageModel,
    teacher: VisionLanguageModel,
    processor: ImageOnlyProcessor,
) -> Callable[..., Scorer]:
    def make(**options: Any) -> Scorer:
        models = {Weights.OLD: policy, Weights.TEACHER: teacher, Weights.REFERENCE: teacher}
        return Scorer(models, Encoder(processor, TEMPLATE), **options)

    return make


class BlockMasks:
    """How often attention was given a block mask, and in which types it computed."""

    def __init__(self) -> None:
        self.count, self.dtypes = 0, set[torch.dtype]()


@pytest.fixture
def block_masks(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockMasks]:
    """FlexAttention on this CPU, by PyTorch's references: of the backward pass, too, which it refuses to run here."""
    calls, attention = BlockMasks(), flex.block_attention

    def counted(query: torch.Tensor, *arguments: Any) -> torch.Tensor:
        calls.count += 1
        calls.dtypes.add(query.dtype)
        return attention(query, *arguments)

    monkeypatch.setattr(flex, "DEVICES", {"cpu"})
    monkeypatch.setattr(flex, "block_attention", counted)
    monkeypatch.setattr("torch.nn.attention.flex_attention._validate_device", lambda *_: None)
    flex.agrees.cache_clear()
    yield calls
    flex.agrees.cache_clear()
