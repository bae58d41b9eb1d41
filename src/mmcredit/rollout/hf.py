"""Sampling in process with the Hugging Face model: one prefill a prompt, and one decode a beginning, however many
responses share it.

``generate`` would prefill every prompt G times, run the vision tower G times and draw from the global generator;
here each response has its own seed, so a step can be replayed alone, in any batch and on any rank.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from mmcredit.models.layout import Row, lay_out
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.rollout.sampling import Sampled, SamplingLaw, draw_uniforms, pick
from mmcredit.types import Prompts


class HFEngine:
    """Samples G responses a prompt with the policy itself.

    Args:
        law: group size, temperature, top-p, length.
        seed: run seed.
        batch: responses decoded side by side; bounds memory, does not change results.
    """

    def __init__(self, law: SamplingLaw, seed: int, batch: int = 512) -> None:
        self.law, self.seed, self.batch = law, seed, batch
        self.seconds: dict[str, float] = defaultdict(float)  # so far: prefill (vision included) and decode

    edits = True  # samples from pixels as they are given

    def single(self) -> HFEngine:
        """The same engine for one response a prompt (validation)."""
        return HFEngine(self.law.single(), self.seed, self.batch)

    @torch.no_grad()
    def generate(self, policy: VisionLanguageModel, prompts: Prompts, step: int, shares: int = 1) -> Sampled:
        """Responses and their log-probs, which are the scorer's own where all arithmetic is float32.

        Args:
            shares: versions of each prompt, one after another in ``prompts``; G / shares responses come from each.
        """
        rounded = torch.is_autocast_enabled(policy.device.type)  # weights may be float32 all the same
        found = Sampled([], [], policy.dtype == torch.float32 and not rounded)
        at_once = max(self.batch // self.law.group, 1)
        was_training = policy.training
        policy.eval()
        with policy.pace.together():
            for start in range(0, len(prompts), at_once * shares):
                chunk = prompts.select(slice(start, start + at_once * shares))
                uniforms = draw_uniforms(self.seed, [s.id for s in chunk.samples[::shares]], step, self.law)
                ids, logps = self._decode(policy, chunk, uniforms)
                found.ids.extend(ids)
                found.logps.extend(logps)
        policy.train(was_training)
        return found

    def _decode(
        self, policy: VisionLanguageModel, prompts: Prompts, uniforms: Tensor
    ) -> tuple[list[list[Tensor]], list[list[Tensor]]]:
        law, device, began = self.law, policy.device, time.perf_counter()
        rows = prompt_rows(policy, prompts)
        layout = lay_out(rows, policy.pad_id, left_pad=True)
        cache: Any = DynamicCache(config=policy.hf.config)  # the config says which layers keep keys and which a state
        hidden = policy.hidden_states(layout, [row.features for row in rows], cache)[:, -1]
        seen = layout.real_RL  # what the last prompt token sees
        position = layout.positions_3RL.amax((0, 2)) + 1
        ends, forbidden = policy.end_ids, policy.forbidden_ids
        alive = torch.arange(len(uniforms), device=device)  # responses still being decoded
        row = alive * len(prompts) // len(uniforms)  # of each of them: equal beginnings share a row
        tokens = torch.zeros(uniforms.shape, dtype=torch.long, device=device)
        logps = torch.zeros(uniforms.shape, device=device)
        lengths = torch.full((len(uniforms),), law.max_new_tokens, device=device)
        decoding = time.perf_counter()
        for t in range(law.max_new_tokens):
            logits = policy.logits(hidden)
            p = law.probabilities(logits, forbidden)
            token = pick(p[row], uniforms[alive.cpu(), t])
            tokens[alive, t], logps[alive, t] = token, law.logp(logits, token, row)
            ended = torch.isin(token, ends)
            lengths[alive[ended]] = t + 1
            if ended.all() or t + 1 == law.max_new_tokens:
                break
            alive = alive[~ended]  # finished responses stop costing
            begun, row = torch.stack([row, token])[:, ~ended].unique(dim=1, return_inverse=True)
            parent, token = begun
            cache.reorder_cache(parent)  # unlike batch_select_indices, of states too
            seen, position = seen[parent], position[parent]
            seen = torch.cat([seen, seen.new_ones(len(seen), 1)], 1)
            hidden = policy.next_hidden(token, position, seen, cache)
            position = position + 1
        self.seconds["prefill"] += decoding - began
        self.seconds["decode"] += time.perf_counter() - decoding
        return law.groups(tokens, lengths), law.groups(logps, lengths)


def prompt_rows(policy: VisionLanguageModel, prompts: Prompts) -> list[Row]:
    """Rows of the prompts alone."""
    features, positions = policy.features_of(prompts), policy.positions(prompts)
    return [
        Row(ids.to(policy.device), position, feature, ())
        for ids, position, feature in zip(prompts.ids, positions, features, strict=True)
    ]
