"""A router that is asked right after sampling, and whose answers are collected where they are needed."""

from __future__ import annotations

import torch
from torch import Tensor

from mmcredit.services.claims import Routing
from mmcredit.services.router import Pending, Router, RoutingRequest
from mmcredit.types import Rollout

Place = tuple[int, int]  # prompt, response


class EarlyRouter:
    """Requests of a step by sample and text, so that prompts may be dropped or joined in between.

    Args:
        router: answers.
    """

    def __init__(self, router: Router) -> None:
        self.router = router
        self._asked: dict[tuple[str, str], tuple[Pending[Routing], int]] = {}  # (sample id, response) -> its answer

    def ask(self, rollout: Rollout, where_BG: Tensor) -> None:
        """Start routing these responses (bool)."""
        asked = {_key(rollout, b, g): rollout.prompts.samples[b] for b, g in where_BG.nonzero().tolist()}
        if asked:
            pending = self.router.submit([RoutingRequest(sample, text) for (_, text), sample in asked.items()])
            self._asked |= {key: (pending, i) for i, key in enumerate(asked)}

    def collect(self, rollout: Rollout, where_BG: Tensor) -> dict[Place, Routing]:
        """The routing of these responses (bool). Asks what was not asked yet, waits, and forgets the step."""
        keys = {(b, g): _key(rollout, b, g) for b, g in where_BG.nonzero().tolist()}
        missing_BG = torch.zeros_like(where_BG)
        for place, key in keys.items():
            missing_BG[place] = key not in self._asked
        self.ask(rollout, missing_BG)
        asked = {place: self._asked[key] for place, key in keys.items()}
        self._asked.clear()
        return {place: pending.result()[i] for place, (pending, i) in asked.items()}


def _key(rollout: Rollout, b: int, g: int) -> tuple[str, str]:
    return rollout.prompts.samples[b].id, rollout.responses.texts[b][g]
