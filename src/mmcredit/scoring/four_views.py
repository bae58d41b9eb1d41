"""A response under right and wrong answer hints, with the image and without, and what the four log-probs tell: which
tokens the right answer favours, and how clear the teacher's verdict on the response is. METHODS section 5.

Suffixes: B prompts, G group, T tokens, K wrong hints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mmcredit.functional import masked_mean
from mmcredit.scoring.edits import FeatureNull, Original
from mmcredit.scoring.hints import hinted, only
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import Hints, View, Weights
from mmcredit.types import Rollout

Aggregate = Callable[[Tensor, Tensor], Tensor]  # [K, B, G, T] log-probs and [K, B, G] which hints exist -> [B, G, T]


class FourViews(NamedTuple):
    """Teacher log-probs of the sampled tokens, [B, G, T], nats; 0 where not scored."""

    right: Tensor  # with the image
    wrong: Tensor
    right_null: Tensor  # image features nulled
    wrong_null: Tensor


def four_view_kinds(hints: Sequence[Hints]) -> list[View]:
    """The teacher's views: each hint with the image, then each without."""
    return [View(Weights.TEACHER, image, hints=hint) for image in (Original(), FeatureNull()) for hint in hints]


def four_views(
    rollout: Rollout,
    scorer: Scorer,
    right: Hints,
    wrong: Sequence[Hints],
    negatives: Aggregate,
    paired_BG: Tensor,
    single_BG: Tensor,
) -> FourViews:
    """One set of passes, 2 + 2K views. Without an image the null views *are* the others, and are not scored again.

    Args:
        negatives: joins the K wrong hints: ``log_mean_exp`` or ``mean_logp``.
        paired_BG: bool, responses scored under all views; they have a right and a wrong hint.
        single_BG: bool, responses scored under the right hint with the image.
    """
    seen_BG = torch.tensor([bool(sample.images) for sample in rollout.prompts.samples], dtype=torch.bool)[:, None]
    full = [right, *(only(hints, paired_BG) for hints in wrong)]
    null = [only(hints, paired_BG & seen_BG) for hints in (right, *wrong)]
    views = [View(Weights.TEACHER, Original(), hints=hints) for hints in full]
    views += [View(Weights.TEACHER, FeatureNull(), hints=hints) for hints in null]
    sighted, blind = torch.stack(scorer.logps(rollout, views, paired_BG | single_BG)).chunk(2)
    blind = torch.where(seen_BG[..., None], blind, sighted)
    given_KBG = torch.stack([hinted(rollout, hints) for hints in wrong])
    return FourViews(sighted[0], negatives(sighted[1:], given_KBG), blind[0], negatives(blind[1:], given_KBG))


def hint_contrast(views: FourViews, alpha: float, beta: float) -> Tensor:
    """[B, G, T] c = alpha Delta + beta Delta0, nats. Step 3. (1, 0) is full vision only, (2, -1) full - null."""
    return alpha * (views.right - views.wrong) + beta * (views.right_null - views.wrong_null)


def vision_gap(views: FourViews, alpha: float, beta: float) -> Tensor:
    """[B, G, T] c = l(right, image) - l(right, null), nats: the ablation without a contrast of hints; no weights."""
    return views.right - views.right_null


def one_vs_rest(views: FourViews, mask_BGT: Tensor) -> tuple[Tensor, ...]:
    """[B, G] mean of the right hint with the image, minus the mean of the other three, nats a token. Step 4."""
    right, *rest = _means(views, mask_BGT)
    return (right - torch.stack(rest).mean(0),)


def vision_pair(views: FourViews, mask_BGT: Tensor) -> tuple[Tensor, ...]:
    """[B, G] mean of the two views with the image, minus the mean of the two without, nats a token. Step 4."""
    right, wrong, right_null, wrong_null = _means(views, mask_BGT)
    return ((right - right_null + wrong - wrong_null) / 2,)


def dispersion(views: FourViews, mask_BGT: Tensor) -> tuple[Tensor, ...]:
    """[B, G] how much more the log-probs of a response spread without the image (population std), nats. Step 4,
    ``std``."""
    right, wrong, right_null, wrong_null = (
        masked_mean((logp - mean[..., None]) ** 2, mask_BGT, dim=-1).sqrt()
        for logp, mean in zip(views, _means(views, mask_BGT), strict=True)
    )
    return ((right_null - right + wrong_null - wrong) / 2,)


def mix(views: FourViews, mask_BGT: Tensor) -> tuple[Tensor, ...]:
    """[B, G] each of ``vision_pair`` and ``dispersion``: the mean of their z counts. Step 4."""
    return (*vision_pair(views, mask_BGT), *dispersion(views, mask_BGT))


def _means(views: FourViews, mask_BGT: Tensor) -> list[Tensor]:
    return [masked_mean(logp, mask_BGT, dim=-1) for logp in views]
