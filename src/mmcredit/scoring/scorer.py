"""Rollout x View -> log-probs: cached per rollout, several views at once, cut into micro-batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mmcredit.models.features import ImageFeatures
from mmcredit.models.layout import Row
from mmcredit.models.vlm import TokenScores, VisionLanguageModel
from mmcredit.scoring.views import Original, Picture, Scored, View, Weights
from mmcredit.types import Rollout

Job = tuple[View, int]  # one prompt under one view


class Scorer:
    """Scores rollouts.

    Args:
        models: the policy (as ``Weights.OLD``) and, if built, the reference.
        black: [patch_dim] a black patch as the processor normalises it.
        merge: spatial merge size of the vision tower.
        temperature: the sampling temperature; log-probs are those of the law that sampled.
        packed: let the responses of a prompt share its row, if the model can; else one padded row a response.
        token_budget: tokens of a forward pass without gradients.
    """

    def __init__(
        self,
        models: Mapping[Weights, VisionLanguageModel],
        black: Tensor,
        merge: int,
        temperature: float = 1.0,
        packed: bool = True,
        token_budget: int = 16384,
    ) -> None:
        self.models, self.black, self.merge = models, black, merge
        self.temperature, self.token_budget = temperature, token_budget
        self.packed = packed and self.policy.shares_prefix()
        self.passes: Counter[View] = Counter()  # views computed since the last rollout began
        self._owner: Tensor | None = None
        self._cache: dict[View, Tensor] = {}
        self._scored: dict[View, Tensor] = {}
        self._features: dict[Job, ImageFeatures | None] = {}

    @property
    def policy(self) -> VisionLanguageModel:
        """The model that is trained."""
        return self.models[Weights.OLD]

    def logp(self, rollout: Rollout, view: View, where_BG: Tensor | None = None) -> Tensor:
        """[B, G, T] log-prob in nats of each sampled token under the view; 0 where not scored.

        Args:
            where_BG: bool, responses whose scores are needed; the others may be 0.
        """
        return self.logps(rollout, [view], where_BG)[0]

    @torch.no_grad()
    def logps(self, rollout: Rollout, views: Sequence[View], where_BG: Tensor | None = None) -> list[Tensor]:
        """``logp`` of several views, in one set of passes. A view asked for before is not computed again."""
        self._begin(rollout)
        wanted = rollout.mask_BGT.any(-1) if where_BG is None else where_BG & rollout.mask_BGT.any(-1)
        nothing = torch.zeros_like(wanted)
        todo = [v for v in dict.fromkeys(views) if (wanted & ~self._scored.get(v, nothing)).any()]
        jobs = [(v, b) for v in todo for b in range(len(rollout.prompts)) if wanted[b].any()]
        for view in todo:
            self.passes[view] += 1
            self._cache.setdefault(view, torch.zeros_like(rollout.mask_BGT, dtype=torch.float32))
            self._scored[view] = self._scored.get(view, nothing) | wanted
        for batch in self._batches(rollout, jobs):
            rows, masks = self._rows(rollout, batch, wanted)
            for (view, b), keep in zip(batch, masks, strict=True):
                self._cache[view][b].masked_fill_(keep, 0.0)
            scores = self.models[batch[0][0].weights].scores(rows, self.temperature)
            parts = scores.logp_S.float().split([int(keep.sum()) for keep in masks])
            for (view, b), keep, part in zip(batch, masks, parts, strict=True):
                self._cache[view][b][keep] = part.cpu()
        return [self._cache.get(v, torch.zeros(rollout.shape)) for v in views]

    def train_scores(self, micro: Rollout) -> TokenScores:
        """[B, G, T] log-prob and entropy of the policy itself, with gradients."""
        features = self.policy.features(micro.prompts.pixels, micro.prompts.grids)
        positions = self.policy.positions(micro.prompts)
        rows = []
        for b, feature in enumerate(features):
            rows += self._share(micro, b, positions[b], feature, micro.mask_BGT[b])
        flat = self.policy.scores(rows, self.temperature)
        zeros = torch.zeros(micro.shape, device=flat.logp_S.device)
        mask = micro.mask_BGT.to(zeros.device)
        return TokenScores(*(zeros.masked_scatter(mask, part) for part in flat))

    def _begin(self, rollout: Rollout) -> None:
        if self._owner is not rollout.responses.ids_BGT:
            self._owner = rollout.responses.ids_BGT
            for store in (self._cache, self._scored, self._features, self.passes):
                store.clear()

    def forget(self) -> None:
        """Drop what was computed: the weights have changed."""
        self._owner = None

    def _batches(self, rollout: Rollout, jobs: Sequence[Job]) -> list[list[Job]]:
        """Jobs of the same weights, up to the token budget."""
        batches: list[list[Job]] = []
        width = 0
        lengths = rollout.mask_BGT.sum(-1)
        for view, b in jobs:
            prompt = len(rollout.prompts.ids[b])
            total = int(lengths[b].sum()) + prompt * (1 if self.packed else rollout.shape[1])
            if not batches or batches[-1][0][0].weights != view.weights or width + total > self.token_budget:
                batches.append([])
                width = 0
            batches[-1].append((view, b))
            width += total
        return batches

    def _rows(self, rollout: Rollout, batch: Sequence[Job], wanted: Tensor) -> tuple[list[Row], list[Tensor]]:
        rows, masks = [], []
        self._see(rollout, batch)
        for view, b in batch:
            model = self.models[view.weights]
            prompts = rollout.prompts
            position = model.family.positions(model.hf, prompts.ids[b].to(model.device), _to(prompts.grids[b], model))
            scope = rollout.grades.answer_BGT if view.scored is Scored.ANSWER else rollout.mask_BGT
            keep = scope[b] & wanted[b][:, None]
            rows += self._share(rollout, b, position, self._features[view, b], keep)
            masks.append(keep)
        return rows, masks

    def _see(self, rollout: Rollout, batch: Sequence[Job]) -> None:
        """Features of each job: the tower runs once a picture and pixel edit, feature edits are applied after it."""
        prompts = rollout.prompts
        pending = dict.fromkeys(job for job in map(_seen, batch) if job not in self._features)
        if pending:
            pixels = [
                None if shown is None else view.image.pixels(shown, self._picture(rollout, b))
                for (view, b), shown in ((job, prompts.pixels[job[1]]) for job in pending)
            ]
            seen = self.models[batch[0][0].weights].features(pixels, [prompts.grids[b] for _, b in pending])
            self._features.update(zip(pending, seen, strict=True))
        for view, b in batch:
            base = self._features[_seen((view, b))]
            changed = base if base is None else view.image.features(base, self._picture(rollout, b))
            self._features[view, b] = changed

    def _picture(self, rollout: Rollout, b: int) -> Picture:
        grid = rollout.prompts.grids[b]
        assert grid is not None, "a prompt without pictures has nothing to edit"
        return Picture(rollout.prompts.samples[b], grid, self.merge, self.black)

    def _share(
        self, rollout: Rollout, b: int, position: Tensor, feature: ImageFeatures | None, keep_GT: Tensor
    ) -> list[Row]:
        """One row with the whole group, or one row a response; cut after the last token to score."""
        device, prompt = position.device, rollout.prompts.ids[b].to(position.device)
        ends = ((torch.arange(keep_GT.shape[1]) + 1) * keep_GT).amax(1).tolist()
        chosen = [g for g, end in enumerate(ends) if end]
        ys = [rollout.responses.ids_BGT[b, g, : ends[g]].to(device) for g in chosen]
        keeps = [keep_GT[g, : ends[g]].to(device) for g in chosen]
        if self.packed and ys:
            return [Row(prompt, position, feature, tuple(ys), tuple(keeps))]
        return [Row(prompt, position, feature, (y,), (k,)) for y, k in zip(ys, keeps, strict=True)]


def _seen(job: Job) -> Job:
    """The job whose pixels the vision tower sees: views that leave pixels alone share it."""
    view, b = job
    return View(view.weights, view.image if view.image.touches_pixels else Original()), b


def _to(grid: Tensor | None, model: VisionLanguageModel) -> Tensor | None:
    return None if grid is None else grid.to(model.device)
