"""Which responses share a row, and which rows a pass. B prompts, G responses, T tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mmcredit.scoring.views import Scored, View
from mmcredit.types import Rollout

Job = tuple[View, int]  # one prompt under one view


@dataclass(frozen=True, slots=True)
class Part:
    """Some responses of a prompt that share a row."""

    view: View
    prompt: int
    members: tuple[int, ...]  # responses, in the order of their tokens: those that begin alike are neighbours
    shared: tuple[int, ...]  # tokens that each shares with the one before it
    ids_L: Tensor  # the prompt as the view shows it
    tokens: int  # length of the row

    @property
    def job(self) -> Job:
        return self.view, self.prompt


def scope(rollout: Rollout, view: View) -> Tensor:
    """[B, G, T] bool, the tokens that the view scores."""
    keep = rollout.grades.answer_BGT if view.scored is Scored.ANSWER else rollout.mask_BGT
    if view.hints is None:
        return keep
    return keep & torch.tensor([[line is not None for line in lines] for lines in view.hints.lines])[..., None]


def hint_of(view: View, b: int, g: int) -> str | None:
    """The line that the view adds to the prompt of response (b, g)."""
    return None if view.hints is None else view.hints.lines[b][g]


def twins(rollout: Rollout, view: View, wanted_BG: Tensor) -> list[tuple[int, int, int]]:
    """(prompt, response, earlier equal response): scored once, so that equal responses get exactly equal numbers."""
    found = []
    lengths = rollout.mask_BGT.sum(-1).tolist()
    for b, (group, wanted) in enumerate(zip(rollout.responses.ids_BGT.tolist(), wanted_BG.tolist(), strict=True)):
        first: dict[tuple[object, ...], int] = {}
        for g, ids in enumerate(group):
            if wanted[g]:
                earlier = first.setdefault((hint_of(view, b, g), *ids[: lengths[b][g]]), g)
                found += [(b, g, earlier)] if earlier != g else []
    return found


def order_of(parts: Sequence[Part], keep_BGT: Tensor) -> Tensor:
    """[S] place in the flattened [B, G, T] of each token to score, in the order in which rows list them."""
    places = torch.arange(keep_BGT.numel()).view(keep_BGT.shape)
    return torch.cat([places[p.prompt, g][keep_BGT[p.prompt, g]] for p in parts for g in p.members])


def ends(keep_GT: Tensor) -> list[int]:
    """Of each response, the length up to its last token to score; 0 where there is none."""
    return ((torch.arange(keep_GT.shape[1]) + 1) * keep_GT).amax(1).tolist()


def batches(parts: Sequence[Part], token_budget: int) -> Iterator[list[Part]]:
    """Rows of the same weights and about the same length, up to the token budget, padding included."""
    batch: list[Part] = []
    for part in sorted(parts, key=lambda p: (p.view.weights.value, p.tokens)):
        same = batch and batch[0].view.weights == part.view.weights
        if batch and not (same and (len(batch) + 1) * part.tokens <= token_budget):
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch
