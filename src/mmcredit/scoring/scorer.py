"""Rollout x View -> log-probs: cached per rollout, several views at once, cut by a token budget."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from mmcredit.data.encode import Encoder
from mmcredit.models.features import ImageFeatures
from mmcredit.models.layout import Row, common_prefixes
from mmcredit.models.vlm import TokenScores, VisionLanguageModel
from mmcredit.scoring.rows import Part, batches, ends, hint_of, scope, twins
from mmcredit.scoring.sight import Sight
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Rollout

log = logging.getLogger(__name__)
PLAIN = View()


class Scorer:
    """Scores rollouts.

    Args:
        models: the policy (as ``Weights.OLD``) and, if built, reference and teacher.
        encoder: what made the prompts; encodes hints and edited pictures.
        temperature: logits are divided by it, as in sampling; top-p and forbidden tokens do not enter.
        packed: let responses of a prompt share a row, as many as cost least, if the model can; else one padded row a
            response.
        token_budget: tokens of a forward pass without gradients, and of a row; one response always fits.
        seed: run seed, for views that draw.
    """

    def __init__(
        self,
        models: Mapping[Weights, VisionLanguageModel],
        encoder: Encoder,
        temperature: float = 1.0,
        packed: bool = True,
        token_budget: int = 16384,
        seed: int = 0,
    ) -> None:
        self.models, self.encoder = models, encoder
        self.temperature, self.token_budget, self.seed = temperature, token_budget, seed
        self.packed = packed and self.policy.shares_prefix()
        self.passes: Counter[View] = Counter()  # views computed since the last rollout began
        self.tokens: Counter[str] = Counter()  # of all passes: computed, and as padded rows of a response each
        self.layouts: Counter[str] = Counter()  # of all groups: one shared row, split over several, single rows
        self.seconds: dict[str, float] = defaultdict(float)  # of all passes without gradients: vision, views by name
        self._owner: Tensor | None = None
        self._cache: dict[View, Tensor] = {}
        self._scored: dict[View, Tensor] = {}
        self.sight = Sight(models, encoder)

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
        missing = {v: wanted & ~self._scored.get(v, nothing) for v in dict.fromkeys(views)}
        todo = [v for v in missing if missing[v].any()]
        same = {v: twins(rollout, v, wanted | self._scored.get(v, nothing)) for v in todo}
        keeps = {v: scope(rollout, v) & missing[v][..., None] for v in todo}
        for view in todo:
            for b, g, _ in same[view]:
                keeps[view][b, g] = False
            self.passes[view] += 1
            self._cache.setdefault(view, torch.zeros(rollout.shape))
            self._scored[view] = self._scored.get(view, nothing) | wanted
        parts = [p for v in todo for b in range(len(rollout.prompts)) for p in self._parts(rollout, v, b, keeps[v][b])]
        for batch in batches(parts, self.token_budget):
            began = time.perf_counter()
            features = self.sight.features(rollout, [part.job for part in batch])
            self.seconds["vision"] += time.perf_counter() - began
            began = time.perf_counter()
            rows = [self._row(rollout, p, keeps[p.view], seen) for p, seen in zip(batch, features, strict=True)]
            scores = self.models[batch[0].view.weights].scores(rows, self.temperature)
            self._store(batch, keeps, scores.logp_S.float().cpu())
            share = (time.perf_counter() - began) / sum(part.tokens for part in batch)
            for part in batch:
                self.seconds[part.view.name] += share * part.tokens
        for view in todo:
            for b, g, first in same[view]:
                self._cache[view][b, g] = self._cache[view][b, first]
        return [self._cache.get(v, torch.zeros(rollout.shape)) for v in views]

    def train_scores(self, micro: Rollout, view: View = PLAIN) -> TokenScores:
        """[B, G, T] log-prob and entropy of the policy under the view, with gradients; 0 where not scored.

        Args:
            view: of the policy's own weights (``Weights.OLD``, though they have moved since) and without hints.
        """
        assert view.weights is Weights.OLD and view.hints is None, "only the policy's own view is trained"
        mask, features = scope(micro, view), self.sight.trained_features(micro, view)
        parts = [p for b in range(len(micro.prompts)) for p in self._parts(micro, view, b, mask[b])]
        flat = self.policy.scores([self._row(micro, p, mask, features[p.prompt]) for p in parts], self.temperature)
        places = torch.arange(mask.numel()).view(mask.shape)
        order = torch.cat([places[p.prompt, g][mask[p.prompt, g]] for p in parts for g in p.members])
        zeros, order = torch.zeros(mask.numel(), device=flat.logp_S.device), order.to(flat.logp_S.device)
        return TokenScores(*(zeros.index_copy(0, order, part.float()).view(mask.shape) for part in flat))

    def to(self, device: torch.device) -> None:
        """Move all models."""
        for model in self.models.values():
            model.to(device)

    def forget(self) -> None:
        """Drop what was computed: the weights have changed."""
        self._owner = None

    def _begin(self, rollout: Rollout) -> None:
        if self._owner is not rollout.responses.ids_BGT:
            self._owner = rollout.responses.ids_BGT
            for store in (self._cache, self._scored, self.passes):
                store.clear()
            self.sight.forget()

    def _parts(self, rollout: Rollout, view: View, b: int, keep_GT: Tensor) -> Iterator[Part]:
        """Rows for one prompt: its responses with a token to score and the same hint, as many a row as cost least."""
        lasts = ends(keep_GT)
        groups: dict[str | None, list[int]] = {}
        for g, last in enumerate(lasts):
            if last:
                groups.setdefault(hint_of(view, b, g), []).append(g)
        for hint, members in groups.items():
            ids = rollout.prompts.ids[b]
            if hint is not None:
                ids = self.encoder.hinted(rollout.prompts.samples[b], ids, hint)
            ys = {g: rollout.responses.ids_BGT[b, g, : lasts[g]].tolist() for g in members}
            members.sort(key=ys.__getitem__)
            yield from self._share(view, b, ids, members, [ys[g] for g in members])

    def _share(
        self, view: View, b: int, ids_L: Tensor, members: Sequence[int], ys: Sequence[list[int]]
    ) -> Iterator[Part]:
        model, lengths, shared = self.models[view.weights], list(map(len, ys)), common_prefixes(ys)
        size = model.cheapest_sharing(len(ids_L), lengths, shared, self.token_budget) if self.packed else 1
        self._note_layout(len(ids_L), lengths, size)
        for start in range(0, len(members), size):
            row = slice(start, start + size)
            begins = (0, *shared[row][1:])
            yield Part(view, b, tuple(members[row]), begins, ids_L, len(ids_L) + sum(lengths[row]) - sum(begins))
        self.tokens["padded"] += len(members) * (len(ids_L) + max(lengths))

    def _note_layout(self, prompt: int, lengths: Sequence[int], size: int) -> None:
        """Count which layout the cost model gave a group; say so when it is the first of its kind."""
        if not self.packed:
            return
        kind = "shared" if size == len(lengths) else "split" if size > 1 else "single"
        if len(lengths) > 1 and not self.layouts[kind]:
            text = "%s rows: %d responses a row of %d to a prompt (%d tokens; responses up to %d)"
            log.info(text, kind, size, len(lengths), prompt, max(lengths))
        self.layouts[kind] += len(lengths) > 1

    def _row(self, rollout: Rollout, part: Part, keep_BGT: Tensor, features: ImageFeatures | None) -> Row:
        model, b = self.models[part.view.weights], part.prompt
        lasts = ends(keep_BGT[b])
        ys = tuple(rollout.responses.ids_BGT[b, g, : lasts[g]].to(model.device) for g in part.members)
        kept = tuple(keep_BGT[b, g, : lasts[g]].to(model.device) for g in part.members)
        prompt, grid = part.ids_L.to(model.device), rollout.prompts.grids[b]
        self.tokens["computed"] += part.tokens
        return Row(prompt, model.positions_of(prompt, grid), features, ys, kept, part.shared)

    def _store(self, batch: Sequence[Part], keeps: Mapping[View, Tensor], logp_S: Tensor) -> None:
        keep_M = [keeps[part.view][part.prompt, g] for part in batch for g in part.members]
        scored = iter(logp_S.split([int(keep.sum()) for keep in keep_M]))
        for part in batch:
            for g in part.members:
                self._cache[part.view][part.prompt, g, keeps[part.view][part.prompt, g]] = next(scored)
