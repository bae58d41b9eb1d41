"""vLLM itself against the trainer, family by family: prompts, tokens and log-probs, before and after weights move.

Qwen3.5 runs in vLLM's CPU build in bfloat16 only: it may be off by twice what bfloat16 costs Hugging Face's own class.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from common import TEMPLATE, WORLD
from test_real_vllm import GREEDY, LAW, SMALL, move
from tiny_families import CASES, InternVL35, build
from torch import Tensor

from mmcredit.data.encode import Encoder
from mmcredit.models.layout import Row
from mmcredit.models.load import export, frozen_copy
from mmcredit.models.processor import load_processor
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.sampling import Sampled
from mmcredit.rollout.vllm import VLLMEngine, version
from mmcredit.rollout.vllm_core import LocalCore
from mmcredit.types import Prompts, Sample

pytest.importorskip("vllm")
pytestmark = pytest.mark.slow

CPU = not torch.cuda.is_available()
TOLERANCE = 1e-4 if CPU else 1e-3  # nats, float32; other pixels (torchvision's for Pillow's) are up to 9e-4 off


@dataclass(frozen=True)
class Subject:
    """A family's tiny model, prompts under other picture settings than the saved ones, and vLLM."""

    policy: VisionLanguageModel
    prompts: Prompts
    core: LocalCore
    half: bool  # vLLM computes in bfloat16

    def sample(self, law: Any = LAW) -> Sampled:
        return VLLMEngine(law, 0, self.core).generate(self.policy, self.prompts, 0)

    def same_weights(self) -> None:
        """vLLM is told that it has the policy's weights."""
        self.core.held = version(self.policy)

    def rows(self, policy: VisionLanguageModel, sampled: Sampled) -> list[Row]:
        prompts = self.prompts
        fields = (prompts.ids, policy.positions(prompts), policy.features(prompts.pixels, prompts.grids), sampled.ids)
        return [Row(ids, place, seen, (y,)) for ids, place, seen, group in zip(*fields, strict=True) for y in group]

    @torch.no_grad()
    def scores(self, policy: VisionLanguageModel, sampled: Sampled) -> Tensor:
        """The trainer's log-probs of what was sampled, [S]."""
        return torch.cat([policy.scores([row]).logp_S for row in self.rows(policy, sampled)])

    def size(self, difference: Tensor) -> float:
        """Largest; on average in bfloat16, where some tokens go to other experts."""
        return float(difference.abs().mean() if self.half else difference.abs().max())

    def gap(self) -> tuple[float, float]:
        """Difference of log-probs between vLLM and the trainer, and what it may be."""
        sampled = self.sample()
        theirs = torch.cat([logps for group in sampled.logps for logps in group])
        ours = self.scores(self.policy, sampled)
        return self.size(theirs - ours), self.limit(ours, sampled)

    def limit(self, ours: Tensor, sampled: Sampled) -> float:
        if not self.half:
            return TOLERANCE
        rounded = frozen_copy(self.policy)
        rounded.hf.to(torch.bfloat16)
        return 2 * self.size(self.scores(rounded, sampled) - ours)


@pytest.fixture(scope="module", autouse=True)
def repacked_experts() -> Iterator[None]:
    """vLLM 0.32's CPU build packs experts for its kernel when it starts, but not when they are loaded again: what it
    samples then is wrong, whatever is loaded. Here it forgets that it has a kernel, and starts again."""
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod

    set_up = UnquantizedFusedMoEMethod._setup_kernel

    def anew(self: Any, *args: Any, **options: Any) -> None:
        self.moe_kernel = None
        set_up(self, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        if CPU:
            patch.setattr(UnquantizedFusedMoEMethod, "_setup_kernel", anew)
        yield


@pytest.fixture(scope="module", params=[*CASES, InternVL35()], ids=lambda case: case.name)
def subject(request, processor, tmp_path_factory) -> Iterator[Subject]:
    """One vLLM for all tests of a family: it takes half a minute to start."""
    from vllm.distributed import cleanup_dist_env_and_memory

    case, folder = request.param, tmp_path_factory.mktemp("model") / "policy"
    policy = build(case, processor.tokenizer)
    export(policy, case.processor(processor.tokenizer), folder)
    one, two, three = (WORLD[i].images[0] for i in range(3))
    samples = [
        Sample("one", (one,), "how many?", "2"),
        Sample("two", (two.resize((192, 96)), three.resize((201, 117))), "which is bigger?", "a"),
        Sample("text", (), "what is one and one?", "2"),
        Sample("tall", (three.resize((90, 250)),), "what is it?", "a"),
    ]
    saved, used = (load_processor(folder, **settings) for settings in ({}, case.smaller))
    longer, prompts = (Encoder(part, TEMPLATE)(samples) for part in (saved, used))
    assert sum(map(len, prompts.ids)) < sum(map(len, longer.ids)), "other settings make other prompts"
    half = CPU and not policy.family.SHARES_PREFIX
    core = LocalCore(str(folder), images=2, pictures=case.smaller, **SMALL | {"dtype": "bfloat16"} if half else SMALL)
    yield Subject(policy, prompts, core, half)
    core.llm.llm_engine.engine_core.shutdown()
    del core.__dict__["llm"]
    cleanup_dist_env_and_memory()
    gc.collect()


def test_an_export_is_loaded_as_what_is_streamed(subject):
    """vLLM's own reading of the folder and the weights sent to it give the same responses and log-probs, bit by bit."""
    subject.same_weights()
    read = subject.sample()
    subject.core.held = []
    sent = subject.sample()
    for a, b in zip(read[:2], sent[:2], strict=True):
        assert [y.tolist() for group in a for y in group] == [y.tolist() for group in b for y in group]


def test_greedy_tokens_are_the_trainers(subject):
    sampled = subject.sample(GREEDY)
    if not subject.half:
        ours = HFEngine(GREEDY, 0).generate(subject.policy, subject.prompts, 0).ids
        assert [y.tolist() for (y,) in sampled.ids] == [y.tolist() for (y,) in ours]
        return
    allowed = torch.ones(subject.policy.vocabulary, dtype=torch.bool)
    allowed[subject.policy.forbidden_ids] = False
    with torch.no_grad():
        rows = subject.rows(subject.policy, sampled)
        hidden = torch.cat([subject.policy.predictors([row]).hidden_UD for row in rows])
        best = subject.policy.log_probs(hidden)[:, allowed].amax(-1)
    chosen = subject.scores(subject.policy, sampled)
    assert subject.size(best - chosen) <= subject.limit(chosen, sampled), "rounding decides between near equals only"


def test_log_probs_agree_before_and_after_an_update(subject):
    gap, limit = subject.gap()
    assert gap < limit
    move(subject.policy.parameters(), 0.05)
    subject.same_weights()
    stale, limit = subject.gap()
    assert stale > 2 * limit, "weights that are not sent must be seen"
    subject.core.held = []
    gap, limit = subject.gap()
    assert gap < limit


def test_a_picture_seen_before_is_seen_anew_by_another_vision_tower(subject):
    before = subject.sample(GREEDY)
    move(subject.policy.family.vision_tower(subject.policy.hf).parameters(), 0.2)
    after = subject.sample(GREEDY)
    for b, sample in enumerate(subject.prompts.samples):
        same = all(part.tolist() == other.tolist() for part, other in zip(
            (before.ids[b][0], before.logps[b][0]), (after.ids[b][0], after.logps[b][0]), strict=True))  # fmt: skip
        assert same == (not sample.images)
    gap, limit = subject.gap()
    assert gap < limit
