"""From a rollout and views to the rows of forward passes: what shares a row, and which rows a pass holds."""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from mmcredit.data.encode import Encoder
from mmcredit.models.features import ImageFeatures
from mmcredit.models.layout import Row, common_prefixes
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.rows import Part, batches, ends, hint_of
from mmcredit.scoring.sight import Sight
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Rollout

log = logging.getLogger(__name__)


class Passes:
    """Builds rows, and counts tokens and seconds. Arguments as in ``Scorer``."""

    def __init__(
        self, models: Mapping[Weights, VisionLanguageModel], encoder: Encoder, packed: bool, token_budget: int
    ) -> None:
        self.models, self.encoder, self.token_budget = models, encoder, token_budget
        self.packed = packed and shares_prefix(self.policy)
        self.tokens: Counter[str] = Counter()  # of all passes: computed, and as padded rows of a response each
        self.layouts: Counter[str] = Counter()  # of all groups: one shared row, split over several, single rows
        self.seconds: dict[str, float] = defaultdict(float)  # of all passes without gradients: vision, views by name
        self.sight = Sight(models, encoder)

    @property
    def policy(self) -> VisionLanguageModel:
        """The model that is trained."""
        return self.models[Weights.OLD]

    def passes_over(self, rollout: Rollout, keeps: Mapping[View, Tensor]) -> Iterator[tuple[list[Part], list[Row]]]:
        """Rows of each pass without gradients over the tokens to score; what the caller does in between is timed."""
        parts = [p for v in keeps for b in range(len(rollout.prompts)) for p in self.parts(rollout, v, b, keeps[v][b])]
        for batch in batches(parts, self.token_budget):
            began = time.perf_counter()
            features = self.sight.features(rollout, [part.job for part in batch])
            self.seconds["vision"] += time.perf_counter() - began
            began = time.perf_counter()
            yield batch, [self.row(rollout, p, keeps[p.view], seen) for p, seen in zip(batch, features, strict=True)]
            share = (time.perf_counter() - began) / sum(part.tokens for part in batch)
            for part in batch:
                self.seconds[part.view.name] += share * part.tokens

    def parts(self, rollout: Rollout, view: View, b: int, keep_GT: Tensor) -> Iterator[Part]:
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
        if not self.packed or len(lengths) == 1:
            return
        kind = "shared" if size == len(lengths) else "split" if size > 1 else "single"
        if not self.layouts[kind]:
            text = "%s rows: %d responses a row of %d to a prompt (%d tokens; responses up to %d)"
            log.info(text, kind, size, len(lengths), prompt, max(lengths))
        self.layouts[kind] += 1

    def row(self, rollout: Rollout, part: Part, keep_BGT: Tensor, features: ImageFeatures | None) -> Row:
        """The row of a part, on its model's device, with the tokens that are kept (bool) to be scored; counts it."""
        model, b = self.models[part.view.weights], part.prompt
        lasts = ends(keep_BGT[b])
        ys = tuple(rollout.responses.ids_BGT[b, g, : lasts[g]].to(model.device) for g in part.members)
        kept = tuple(keep_BGT[b, g, : lasts[g]].to(model.device) for g in part.members)
        prompt, grid = part.ids_L.to(model.device), rollout.prompts.grids[b]
        self.tokens["computed"] += part.tokens
        return Row(prompt, model.positions_of(prompt, grid), features, ys, kept, part.shared)


def shares_prefix(policy: VisionLanguageModel) -> bool:
    """Whether responses may share the row of their prompt; says so in the log where they may not."""
    if not policy.family.SHARES_PREFIX:
        kind = policy.hf.config.model_type
        log.warning("%s layers carry state from token to token: one padded row a response, no shared rows", kind)
    return policy.family.SHARES_PREFIX
