"""One wrapper over Hugging Face's image-text-to-text models: features, hidden states, log-probs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

from mmcredit.models import flex
from mmcredit.models.families import family_of
from mmcredit.models.feature_cache import FeatureCache
from mmcredit.models.features import ImageFeatures
from mmcredit.models.head import Predictors, TokenScores, in_chunks
from mmcredit.models.layout import Layout, Row, cheapest_sharing, lay_out
from mmcredit.models.lockstep import Paced
from mmcredit.types import Prompts, UserError

HEAD_ELEMENTS = 2**25  # logits held at once: 220 tokens at a vocabulary of 151,936


class VisionLanguageModel(Paced):
    """A Hugging Face vision-language model behind the few calls that reinforcement learning needs.

    Raises:
        UserError: the model belongs to no known family, or has layers that its family does not know.
    """

    def __init__(self, hf: Any) -> None:
        super().__init__()
        self.hf: Any = hf
        self.family = family_of(hf.config.model_type)
        layer_types = getattr(hf.config.get_text_config(), "layer_types", None) or ()
        if unknown := set(layer_types) - self.family.LAYER_TYPES:
            raise UserError(f"{hf.config.model_type} models with layers of type {unknown.pop()!r} are not supported")
        self.feature_cache = FeatureCache(self.family.vision_tower(hf))
        self.known_ids = self.vocabulary  # ids from here on have no token: rows that pad the head
        layers = self.family.decoder_layers(hf)
        self.language_parameters = sum(p.numel() for p in layers.parameters())

    @property
    def device(self) -> torch.device:
        return self.work_device or self.hf.device

    @property
    def dtype(self) -> torch.dtype:
        return self.work_dtype or self.hf.dtype

    @property
    def owner(self) -> VisionLanguageModel:
        """The model whose weights this one stands on."""
        return self

    def _smallest_picture(self) -> Tensor:
        pixels, grid = (part.to(self.device) for part in self.family.smallest_picture(self.hf.config))
        (seen,) = self.family.image_features(self.hf, pixels, grid, [1])
        return torch.stack([layer.float().sum() for layer in (seen.merged_ND, *seen.deepstack)]).sum()

    def _shortest_text(self) -> Tensor:
        ids = torch.full((1,), self.pad_id, device=self.device)
        layout = lay_out([Row(ids, self.positions_of(ids, None), None, (ids,))], self.pad_id)
        return self.log_probs(self._read(layout, [None], None)[:, 0]).sum()

    @property
    def pad_id(self) -> int:
        return self.hf.generation_config.pad_token_id or 0

    @property
    def end_ids(self) -> Tensor:
        """Tokens that end a response."""
        ends = self.hf.generation_config.eos_token_id
        return torch.tensor([ends] if isinstance(ends, int) else ends, device=self.device)

    @property
    def forbidden_ids(self) -> Tensor:
        """Tokens that stand for pixels, and ids without a token: they must never be sampled."""
        vision = self.family.forbidden_ids(self.hf.config)
        return torch.tensor([*vision, *range(self.known_ids, self.vocabulary)], device=self.device)

    def features(self, pixels: Sequence[Tensor | None], grids: Sequence[Tensor | None]) -> list[ImageFeatures | None]:
        """Vision features of each prompt, None where it has no picture. One pass over all pictures."""
        shown = [(p, g) for p, g in zip(pixels, grids, strict=True) if p is not None and g is not None]
        if not shown:
            return [None] * len(pixels)
        all_pixels, all_grids = (torch.cat(part).to(self.device) for part in zip(*shown, strict=True))
        counts = [len(g) for _, g in shown]
        found = iter(self._pass(True, lambda: self.family.image_features(self.hf, all_pixels, all_grids, counts)))
        return [None if p is None else next(found) for p in pixels]

    def features_of(self, prompts: Prompts) -> list[ImageFeatures | None]:
        """``features`` of the prompts' own pictures; what was seen under the same weights is not computed again."""
        return self.feature_cache.features_of(prompts, self.features)

    def positions(self, prompts: Prompts) -> list[Tensor]:
        """[3, L_b] rotary positions of each prompt."""
        return [
            self.positions_of(ids.to(self.device), grid) for ids, grid in zip(prompts.ids, prompts.grids, strict=True)
        ]

    def positions_of(self, ids_L: Tensor, grid: Tensor | None) -> Tensor:
        """[3, L] rotary positions of one prompt."""
        return self.family.positions(self.hf, ids_L, None if grid is None else grid.to(self.device))

    def cheapest_sharing(self, prompt: int, lengths: Sequence[int], shared: Sequence[int], budget: int) -> int:
        """How many responses should share a row of at most ``budget`` tokens (``layout.cheapest_sharing``)."""
        text = self.hf.config.get_text_config()
        head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        pair = 2 * text.num_hidden_layers * text.num_attention_heads * head
        return cheapest_sharing(prompt, lengths, shared, budget, self.language_parameters, pair)

    def hidden_states(
        self, layout: Layout, features: Sequence[ImageFeatures | None], cache: Cache | None = None
    ) -> Tensor:
        """[R, L, D] last hidden states of the rows, image embeddings placed where the family wants them."""
        return self._pass(False, lambda: self._read(layout, features, cache))

    def _read(self, layout: Layout, features: Sequence[ImageFeatures | None], cache: Cache | None) -> Tensor:
        embeds = self.hf.get_input_embeddings()(layout.ids_RL)
        image_mask = layout.ids_RL == self.hf.config.image_token_id
        shown = [f for f in features if f is not None]
        deepstack: list[Tensor] = []
        if shown:
            merged = torch.cat([f.merged_ND for f in shown]).to(embeds.dtype)
            embeds = embeds.masked_scatter(image_mask[..., None], merged)
            deepstack = [torch.cat(layer) for layer in zip(*(f.deepstack for f in shown), strict=True)]
        return self.family.hidden_states(
            self.hf,
            embeds,
            flex.mask(self.hf, layout.ends_RL, self.dtype, cache),
            layout.real_RL,
            layout.positions_3RL,
            image_mask,
            deepstack,
            cache,
        )

    def next_hidden(self, token_R: Tensor, position_R: Tensor, seen_RK: Tensor, cache: Cache) -> Tensor:
        """[R, D] hidden state after one more token; ``seen_RK`` says which of the K keys (this token last) it sees."""
        mask = torch.zeros(seen_RK.shape, dtype=self.dtype, device=self.device)
        mask = mask.masked_fill_(~seen_RK, torch.finfo(self.dtype).min)[:, None, None]
        no_image = torch.zeros(len(token_R), 1, dtype=torch.bool, device=self.device)
        positions = position_R[None, :, None].expand(3, -1, 1)

        def read() -> Tensor:
            embeds = self.hf.get_input_embeddings()(token_R[:, None])
            return self.family.hidden_states(self.hf, embeds, mask, ~no_image, positions, no_image, (), cache)

        return self._pass(False, read)[:, -1]

    @property
    def vocabulary(self) -> int:
        """Number of logits a token."""
        return self.hf.get_output_embeddings().weight.shape[0]

    def logits(self, hidden_RD: Tensor) -> Tensor:
        """[R, V] float32."""
        return self.hf.get_output_embeddings()(hidden_RD).float()

    def scores(self, rows: Sequence[Row], temperature: float = 1.0, left_pad: bool = False) -> TokenScores:
        """Log-prob and entropy of every scored response token."""
        found = self.predictors(rows, left_pad)
        scored = self.head(found.hidden_UD, found.targets_U, temperature)
        return TokenScores(*(values[found.unique_S] for values in scored))

    def predictors(self, rows: Sequence[Row], left_pad: bool = False) -> Predictors:
        """Hidden states before every scored response token.

        Raises:
            ValueError: responses share a row, and the family cannot do that.
        """
        if not self.family.SHARES_PREFIX and any(len(row.responses) > 1 for row in rows):
            raise ValueError(f"responses of a {self.hf.config.model_type} model cannot share a row")
        layout = lay_out(rows, self.pad_id, left_pad)
        hidden = self.hidden_states(layout, [row.features for row in rows])
        return Predictors(hidden.flatten(0, 1)[layout.predictors_U], layout.targets_U, layout.unique_S)

    def head(self, hidden_UD: Tensor, targets_U: Tensor, temperature: float = 1.0) -> TokenScores:
        """Log-prob and entropy of tokens after hidden states; the [tokens, vocabulary] matrix is never held whole."""

        def chunk(hidden_SD: Tensor, targets_S: Tensor) -> TokenScores:
            logp_SV = self.log_probs(hidden_SD, temperature)
            entropy_S = -(logp_SV.exp() * logp_SV).sum(-1)
            return TokenScores(logp_SV.gather(1, targets_S[:, None])[:, 0], entropy_S)

        return TokenScores(*in_chunks(chunk, (hidden_UD, targets_U), self.head_chunk()))

    def head_chunk(self, distributions: int = 1) -> int:
        """Tokens whose logits may be held at once, so many distributions a token."""
        return max(HEAD_ELEMENTS // (distributions * self.vocabulary), 1)

    def log_probs(self, hidden_SD: Tensor, temperature: float = 1.0) -> Tensor:
        """[S, V] of the whole vocabulary, nats, float32: for chunks of tokens."""
        return (self.logits(hidden_SD) / temperature).log_softmax(-1)
