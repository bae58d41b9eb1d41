"""The typed objects that cross the doors between rooms.

Shape suffixes: B prompts, G responses of a prompt (group), T response tokens, L prompt tokens, N merged image
tokens, D model width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor


Span = tuple[int, int]  # half-open interval of characters


class UserError(ValueError):
    """A mistake in what the user gave: reported as one line, without a traceback."""


@dataclass(frozen=True, slots=True)
class Box:
    """Axis-aligned box, xywh, absolute pixels of the *original* image, origin top left."""

    x: float
    y: float
    w: float
    h: float

    @property
    def centre(self) -> tuple[float, float]:
        return self.x + self.w / 2, self.y + self.h / 2

    @property
    def area(self) -> float:
        return self.w * self.h

    def iou(self, other: Box) -> float:
        """Intersection over union, 0..1."""
        overlap_w = min(self.x + self.w, other.x + other.w) - max(self.x, other.x)
        overlap_h = min(self.y + self.h, other.y + other.h) - max(self.y, other.y)
        inter = max(overlap_w, 0.0) * max(overlap_h, 0.0)
        return inter / (self.area + other.area - inter)


@dataclass(frozen=True, slots=True)
class SceneObject:
    """One annotated object of an image whose source knows *all* objects (the embedded world); oracles read it."""

    shape: str
    color: str
    size: str
    box: Box


@dataclass(frozen=True, slots=True)
class Sample:
    """One question about zero or more images.

    Example: ``Sample(id="7", images=(picture,), question="how many red objects are there?", answer="2",
    family="counting", boxes=(Box(8, 8, 20, 20), Box(70, 40, 24, 24)), proposal_bbox=Box(8, 8, 20, 20))``
    """

    id: str
    images: tuple[Image, ...]  # RGB
    question: str
    answer: str  # gold
    family: str = ""  # counting | attribute | spatial | presence | "" (unknown)
    boxes: tuple[Box, ...] = ()  # every object that matters for the question, on images[0]
    proposal_bbox: Box | None = None  # the primary evidence region; first in the priority of METHODS section 4
    target_bbox: Box | None = None
    argument_bbox: Box | None = None
    bbox: Box | None = None
    objects: tuple[SceneObject, ...] = ()  # all objects of the image, if the source knows them
    meta: Mapping[str, str] = field(default_factory=dict)  # reference, pseudo_ground_truth, key_facts; solution

    @property
    def named_box(self) -> Box | None:
        """The evidence box, by priority; None where none is named."""
        given = (self.proposal_bbox, self.target_bbox, self.argument_bbox, self.bbox)
        return next((box for box in given if box is not None), None)


@dataclass(frozen=True, slots=True)
class Prompts:
    """B encoded prompts, ragged: one entry a sample in every tuple, so that samples can be split and joined freely."""

    samples: tuple[Sample, ...]
    ids: tuple[Tensor, ...]  # [L_b] int64, chat template applied, image placeholders expanded
    pixels: tuple[Tensor | None, ...]  # [patches_b, patch_dim] processor output, None for text only
    grids: tuple[Tensor | None, ...]  # [images_b, 3] (t, h, w) of each image: t tiles (1: not cut) of h x w patches

    def __len__(self) -> int:
        return len(self.samples)

    def pick(self, places: Sequence[int]) -> Prompts:
        """The prompts at these places, in this order."""
        return Prompts(
            tuple(self.samples[b] for b in places),
            tuple(self.ids[b] for b in places),
            tuple(self.pixels[b] for b in places),
            tuple(self.grids[b] for b in places),
        )

    def select(self, part: slice) -> Prompts:
        """Some of the prompts."""
        return Prompts(self.samples[part], self.ids[part], self.pixels[part], self.grids[part])


@dataclass(frozen=True, slots=True)
class Responses:
    """What was sampled. Tokens past a response's end are 0 with ``mask_BGT`` False.

    The end-of-sequence token belongs to the response (the policy chose it). ``spans`` are half-open character
    intervals into ``texts``; the end token has an empty interval at the end of the text.
    """

    ids_BGT: Tensor  # int64, the sampled ids themselves (never re-tokenised)
    mask_BGT: Tensor  # bool, valid response tokens
    texts: tuple[tuple[str, ...], ...]  # [B][G]
    spans: tuple[tuple[tuple[Span, ...], ...], ...]  # [B][G][T_i] characters of each token


@dataclass(frozen=True, slots=True)
class Grades:
    """What the rule-based reward says of each response."""

    reward_BG: Tensor  # float
    correct_BG: Tensor  # bool, final answer right
    format_BG: Tensor  # bool, template kept
    answers: tuple[tuple[str | None, ...], ...]  # [B][G] extracted final answer, None where there is none
    answer_BGT: Tensor  # bool, tokens of the final answer; all False where there is none
    outcomes: tuple[tuple[str, ...], ...] | None = None  # [B][G] right, wrong, unparsable, timed_out, if known


@dataclass(frozen=True, slots=True)
class Rollout:
    """G graded responses to each of B prompts: all that is known when credit is assigned."""

    prompts: Prompts
    responses: Responses
    grades: Grades
    step: int  # rollout step, 0-based
    logp_BGT: Tensor  # nats, sampled token under the old policy; 0 outside the mask
    reward_BG: Tensor  # current reward: the grades' at first, then what each reward callback returns
    start: int = 0  # place of the first prompt in the rollout that it was selected from
    scored: bool = False  # whether ``logp_BGT`` came with the sample; else it is 0 until a pass fills it in
    engine_logp_BGT: Tensor | None = None  # nats, the engine's own, where they may differ from ``logp_BGT``

    @property
    def mask_BGT(self) -> Tensor:
        return self.responses.mask_BGT

    @property
    def shape(self) -> tuple[int, int, int]:
        b, g, t = self.responses.ids_BGT.shape
        return b, g, t

    def select(self, prompts: slice) -> Rollout:
        """The rollout of some of the prompts (views, no copies)."""
        r, k = self.responses, self.grades
        return Rollout(
            self.prompts.select(prompts),
            Responses(r.ids_BGT[prompts], r.mask_BGT[prompts], r.texts[prompts], r.spans[prompts]),
            Grades(
                k.reward_BG[prompts],
                k.correct_BG[prompts],
                k.format_BG[prompts],
                k.answers[prompts],
                k.answer_BGT[prompts],
                None if k.outcomes is None else k.outcomes[prompts],
            ),
            self.step,
            self.logp_BGT[prompts],
            self.reward_BG[prompts],
            self.start + (prompts.start or 0),
            self.scored,
            None if self.engine_logp_BGT is None else self.engine_logp_BGT[prompts],
        )
