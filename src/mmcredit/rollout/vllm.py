"""Sampling with vLLM: the policy's weights are streamed to it before each rollout, by name.

vLLM makes the prompt anew from the pictures and must arrive at the trainer's ids; its log-probs are its own
(``Sampled.exact`` is false), so the trainer scores what was sampled and watches the difference.
"""

from __future__ import annotations

import itertools
import time
import weakref
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from mmcredit.functional import gather, stable_seed
from mmcredit.models.lora import plain_weights
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.sampling import Sampled, SamplingLaw
from mmcredit.rollout.vllm_core import Core, Reply, Request
from mmcredit.types import Prompts, UserError


class VLLMEngine:
    """Samples G responses a prompt with vLLM.

    Args:
        law: group size, temperature, top-p, length.
        seed: run seed.
        core: vLLM itself, in this process or behind a server.

    Raises:
        UserError: top-p below 1 at a temperature other than 1: vLLM then gives no log-probs that the trainer could use.
    """

    edits = False  # pictures are given as files, pixels that a method changed cannot be

    def __init__(self, law: SamplingLaw, seed: int, core: Core) -> None:
        plain = law.temperature in (0, 1)
        if law.top_p < 1 and not plain:
            raise UserError(
                f"rollout.top_p={law.top_p} at rollout.temperature={law.temperature}: log-probs of a cut distribution "
                "are off by the mass that was cut; with rollout=vllm use rollout.top_p=1 or rollout.temperature=1"
            )
        core.count_before_sampling(plain)
        self.law, self.seed, self.core = law, seed, core
        self.seconds: dict[str, float] = defaultdict(float)  # so far: sync and decode

    def single(self) -> VLLMEngine:
        """The same engine for one response a prompt (validation)."""
        return VLLMEngine(self.law.single(), self.seed, self.core)

    @torch.no_grad()
    def generate(self, policy: VisionLanguageModel, prompts: Prompts, step: int, shares: int = 1) -> Sampled:
        """Responses and vLLM's own log-probs of them.

        Raises:
            UserError: several versions of a prompt are wanted.
            RuntimeError: vLLM made other ids of a prompt than the trainer, or sampled a token that stands for pixels.
        """
        if shares > 1:
            raise UserError("callbacks that sample under edited pictures need rollout=hf")
        self.core.wake()
        self._sync(policy)
        began = time.perf_counter()
        forbidden, ends = policy.forbidden_ids.tolist(), policy.end_ids.tolist()
        replies = self.core.generate(list(self._requests(policy, prompts, step)), self.law, forbidden, ends)
        self.core.sleep()
        self.seconds["decode"] += time.perf_counter() - began
        for n, reply in enumerate(replies):
            _check(prompts, n // self.law.group, reply, forbidden)
        ids = [torch.tensor(reply.ids) for reply in replies]
        logps = [torch.tensor(reply.logps) for reply in replies]
        group = self.law.group
        firsts = range(0, len(replies), group)
        return Sampled([ids[i : i + group] for i in firsts], [logps[i : i + group] for i in firsts], exact=False)

    def _requests(self, policy: VisionLanguageModel, prompts: Prompts, step: int) -> Iterator[Request]:
        image, added = int(policy.hf.config.image_token_id), policy.family.VLLM_ADDS
        for sample, ids in zip(prompts.samples, prompts.ids, strict=True):
            short = one_placeholder_a_picture(ids.tolist(), image, added)
            if short.count(image) != len(sample.images):
                raise RuntimeError(
                    f"sample {sample.id!r}: {short.count(image)} placeholders, {len(sample.images)} pictures"
                )
            for g in range(self.law.group):
                seed = stable_seed(self.seed, sample.id, step, g, "sampling") % 2**31
                yield Request(short, sample.images, seed, len(ids))

    def _sync(self, policy: VisionLanguageModel) -> None:
        """Give vLLM the weights if they have moved since it got them: on any rank, for all then go through them."""
        now = version(policy)
        if not any(gather(now != self.core.held)):
            return
        began = time.perf_counter()
        self.core.load(named_weights(policy))
        self.core.held = now
        self.seconds["sync"] += time.perf_counter() - began


def version(policy: VisionLanguageModel) -> list[Any]:
    """Equal while the weights are the same: of this very policy, for another one's may have moved as often."""
    return [weakref.ref(policy), *(p._version for p in policy.parameters())]


def named_weights(policy: VisionLanguageModel) -> Iterator[tuple[str, Tensor]]:
    """Weights one after another under the names of the checkpoint. Tied ones come under both names: vLLM's CPU build
    keeps a repacked copy of the head, which would stay behind. No weight is copied but those that are spread over ranks
    or have an adapter."""
    yield from plain_weights(policy, tied_once=False)


def one_placeholder_a_picture(ids: Sequence[int], image: int, added: int = 0) -> list[int]:
    """Ids with each run of picture tokens cut to one, as vLLM wants them.

    Args:
        added: tokens on either side of the run that vLLM puts there itself, with the run.
    """
    short: list[int] = []
    skipped = 0
    for is_picture, run in itertools.groupby(ids, lambda token: token == image):
        if is_picture:
            short[len(short) - added :] = [image]
            skipped = added
        else:
            short.extend(itertools.islice(run, skipped, None))
    return short


def _check(prompts: Prompts, b: int, reply: Reply, forbidden: Sequence[int]) -> None:
    sample, ids = prompts.samples[b], prompts.ids[b].tolist()
    if reply.prompt_ids != ids:
        raise RuntimeError(
            f"sample {sample.id!r}: vLLM made {len(reply.prompt_ids)} prompt tokens, the trainer {len(ids)}: the two "
            "resize pictures differently; a server needs the trainer's model.path and model.processor"
        )
    if bad := set(reply.ids) & set(forbidden):
        raise RuntimeError(f"sample {sample.id!r}: vLLM sampled the forbidden token {bad.pop()}")
