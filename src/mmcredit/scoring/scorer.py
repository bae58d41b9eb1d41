"""Rollout x View -> log-probs: cached per rollout, several views at once, cut by a token budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mmcredit.data.encode import Encoder
from mmcredit.models.head import TokenScores
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.divergence import Divergence, reverse_kl, token_divergence
from mmcredit.scoring.passes import Passes
from mmcredit.scoring.rows import Part, scope, twins
from mmcredit.scoring.states import States
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Rollout

PLAIN = View()


class Scorer(Passes):
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
        super().__init__(models, encoder, packed, token_budget)
        self.temperature, self.seed = temperature, seed
        self.passes: Counter[View] = Counter()  # views computed since the last rollout began
        self._owner: Tensor | None = None
        self._cache: dict[View, Tensor] = {}
        self._scored: dict[View, Tensor] = {}
        self._trained: tuple[Rollout, States] | None = None  # the latest plain pass with gradients

    def logp(self, rollout: Rollout, view: View, where_BG: Tensor | None = None) -> Tensor:
        """[B, G, T] log-prob in nats of each sampled token under the view; 0 where not scored.

        Args:
            where_BG: bool, responses whose scores are needed; the others may be 0.
        """
        return self.logps(rollout, [view], where_BG)[0]

    @torch.no_grad()
    def logps(self, rollout: Rollout, views: Sequence[View], where_BG: Tensor | None = None) -> list[Tensor]:
        """[B, G, T] ``logp`` of each of several views, in one set of passes. A view asked for before is not
        computed again."""
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
        with self.policy.pace.together():
            for batch, rows in self.passes_over(rollout, keeps):
                scores = self.models[batch[0].view.weights].scores(rows, self.temperature)
                self._store(batch, keeps, scores.logp_S.float().cpu())
        for view in todo:
            for b, g, first in same[view]:
                self._cache[view][b, g] = self._cache[view][b, first]
        return [self._cache.get(v, torch.zeros(rollout.shape)) for v in views]

    def train_scores(self, micro: Rollout, view: View = PLAIN) -> TokenScores:
        """[B, G, T] log-prob and entropy of the policy under the view, with gradients; 0 where not scored.

        Args:
            view: of the policy's own weights (``Weights.OLD``, though they have moved since) and without hints.
        """
        states = self._train_states(micro, view)
        if view == PLAIN:
            self._trained = micro, states
        scores = self.policy.head(states.hidden_ND, states.targets_N, self.temperature)
        return TokenScores(*map(states.spread, scores))

    def train_divergence(self, micro: Rollout, view: View, divergence: Divergence) -> Tensor:
        """[B, G, T] divergence between the policy's own view, with gradients, and a view without any, over the whole
        vocabulary, nats; 0 where the view does not score. After ``train_scores`` of ``micro`` its pass is used.

        Args:
            view: of any weights, hints and picture.
            divergence: of chunks of log-probs, as in ``scoring.divergence``.
        """
        trained, self._trained = self._trained, None  # once: a backward pass frees what it needs
        keep_BGT = scope(micro, view)
        if not keep_BGT.any():
            return torch.zeros(micro.shape, device=self.policy.device)
        self._begin(micro)
        self.passes[view] += 1
        policy = trained[1] if trained is not None and trained[0] is micro else self._train_states(micro, PLAIN)
        return token_divergence(divergence, policy, self._states(micro, view, keep_BGT), self.temperature)

    @torch.no_grad()
    def kl(self, rollout: Rollout, view_a: View, view_b: View, where_BG: Tensor | None = None) -> Tensor:
        """[B, G, T] KL(view_a || view_b) over the whole vocabulary before each token that both score, nats; else 0.

        Args:
            where_BG: bool, responses to compare; the others are 0.
        """
        self._begin(rollout)
        self.passes.update((view_a, view_b))
        keep_BGT, found = scope(rollout, view_a) & scope(rollout, view_b), torch.zeros(rollout.shape)
        if where_BG is not None:
            keep_BGT = keep_BGT & where_BG[..., None]
        with self.policy.pace.together():
            for b in keep_BGT.flatten(1).any(1).nonzero().flatten():  # hidden states of one prompt at a time
                here = torch.zeros_like(keep_BGT)
                here[b] = keep_BGT[b]
                a, other = (self._states(rollout, view, here) for view in (view_a, view_b))
                found += token_divergence(reverse_kl, a, other, self.temperature).cpu()
        return found

    def _train_states(self, micro: Rollout, view: View) -> States:
        assert view.weights is Weights.OLD and view.hints is None, "only the policy's own view is trained"
        mask, features = scope(micro, view), self.sight.trained_features(micro, view)
        parts = [p for b in range(len(micro.prompts)) for p in self.parts(micro, view, b, mask[b])]
        rows = [self.row(micro, p, mask, features[p.prompt]) for p in parts]
        return States.of(self.policy, mask, [(parts, self.policy.predictors(rows))])

    @torch.no_grad()
    def _states(self, rollout: Rollout, view: View, keep_BGT: Tensor) -> States:
        model = self.models[view.weights]
        found = [(batch, model.predictors(rows)) for batch, rows in self.passes_over(rollout, {view: keep_BGT})]
        return States.of(model, keep_BGT, found)

    def to(self, device: torch.device) -> None:
        """Move all models."""
        for model in self.models.values():
            model.to(device)

    def adopt(self, rollout: Rollout) -> None:
        """Take the log-probs that came with the sample for those of the plain view: no pass is made for them."""
        self._begin(rollout)
        self._cache[PLAIN], self._scored[PLAIN] = rollout.logp_BGT.clone(), rollout.mask_BGT.any(-1)

    def forget(self) -> None:
        """Drop what was computed: the weights have changed."""
        self._owner = self._trained = None

    def _begin(self, rollout: Rollout) -> None:
        if self._owner is not rollout.responses.ids_BGT:
            self._owner = rollout.responses.ids_BGT
            for store in (self._cache, self._scored, self.passes):
                store.clear()
            self.sight.forget()

    def _store(self, batch: Sequence[Part], keeps: Mapping[View, Tensor], logp_S: Tensor) -> None:
        keep_M = [keeps[part.view][part.prompt, g] for part in batch for g in part.members]
        scored = iter(logp_S.split([int(keep.sum()) for keep in keep_M]))
        for part in batch:
            for g in part.members:
                self._cache[part.view][part.prompt, g, keeps[part.view][part.prompt, g]] = next(scored)
