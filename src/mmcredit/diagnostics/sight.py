"""A cheap check of sight: how much accuracy is left without the picture, with its pieces shuffled, with another one?

Every checkpoint answers the bank's questions under each picture, with the same draws; and how much the bank's tokens
depend on the picture: k3 of the log-probs with half of its cells blackened, as VPPO measures it (METHODS section 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from PIL import Image

from mmcredit.diagnostics.boxes import partner
from mmcredit.diagnostics.draws import by_question
from mmcredit.diagnostics.figures import bars, histogram
from mmcredit.diagnostics.findings import Cell, Findings, Row, Section
from mmcredit.diagnostics.setting import Setting, numbers
from mmcredit.evaluation.statistics import Estimate
from mmcredit.functional import k3, stable_rng
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.edits import ImageEdit, PixelMask
from mmcredit.scoring.views import View
from mmcredit.types import Sample, UserError

PERCENT = (50, 90, 99)


class Sight:
    """The check of every checkpoint.

    Args:
        pieces: the shuffled picture is cut into so many rows and columns.
        depends: k3 above which a token counts as dependent, nats.
        corruption: under which dependency is measured; None: half of the cells black.

    Raises:
        UserError: fewer than two pieces a side, or a bank without two questions.
    """

    def __init__(self, pieces: int = 4, depends: float = 0.1, corruption: ImageEdit | None = None) -> None:
        if pieces < 2:
            raise UserError(f"diagnostic.pieces={pieces} must be at least 2")
        self.pieces, self.depends, self.corruption = pieces, depends, corruption or PixelMask(0.5)

    def __call__(self, setting: Setting) -> Findings:
        if len(setting.bank) < 2:
            raise UserError("the sight check needs a bank of at least two questions: another picture is shown")
        accuracy, tokens, shown = list[Row](), list[Row](), dict[str, np.ndarray]()
        series: dict[str, dict[str, Estimate]] = {}
        for who, policy in setting.policies():
            right = {name: self.right(setting, policy, show) for name, show in self.pictures(setting).items()}
            means = {name: setting.resampler.mean(value_Q) for name, value_Q in right.items()}
            series[who] = {name: setting.resampler.estimate(value) for name, value in means.items()}
            gaps = {f"gap {name}": setting.resampler.estimate(means["original"] - means[name]) for name in [*means][1:]}
            accuracy.append({"checkpoint": who, **series[who], **gaps})
            shown[who] = np.array(self.dependency(setting, policy))
            row: dict[str, Cell] = {"checkpoint": who, "tokens": len(shown[who]), "mean": float(shown[who].mean())}
            row |= {f"P{p}": float(np.percentile(shown[who], p)) for p in PERCENT}
            tokens.append(row | {f"share above {self.depends:g}": float((shown[who] > self.depends).mean())})
        sections = [
            Section("Accuracy by picture", accuracy, ["gap: original - the other picture, same questions and draws"]),
            Section("Visual dependency of the bank's tokens", tokens, ["k3 under the corrupted picture, nats"]),
        ]
        figures = {"accuracy": bars(series, "accuracy"), "dependency": histogram(shown, "k3 of a token, nats")}
        return Findings(sections, figures)

    def pictures(self, setting: Setting) -> dict[str, Callable[[Sample], Sample]]:
        """The picture that is shown in place of a sample's own, by name."""
        samples = setting.bank.samples
        places = {sample.id: place for place, sample in enumerate(samples)}

        def other(sample: Sample) -> Sample:
            shown = samples[partner(places[sample.id], len(samples))].images
            return replace(sample, images=tuple(shown[i % len(shown)] for i in range(len(sample.images))))

        def blank(sample: Sample) -> Sample:
            return replace(sample, images=tuple(Image.new("RGB", image.size) for image in sample.images))

        def shuffled(sample: Sample) -> Sample:
            images = (shuffle(image, self.pieces, sample.id, i) for i, image in enumerate(sample.images))
            return replace(sample, images=tuple(images))

        return {"original": lambda sample: sample, "blank": blank, "shuffled": shuffled, "other": other}

    def right(self, setting: Setting, policy: VisionLanguageModel, show: Callable[[Sample], Sample]) -> np.ndarray:
        """[Q] share of right answers."""

        def work(start: int, stop: int) -> list[tuple[int, int, float]]:
            prompts = setting.encoder([show(sample) for sample in setting.bank.samples[start:stop]])
            correct_BG = setting.generated(policy, prompts)[1].correct_BG
            return [(start + b, g, float(c)) for b, row in enumerate(correct_BG) for g, c in enumerate(row)]

        question, response, value = (np.array(column) for column in zip(*setting.over(work), strict=True))
        return by_question(len(setting.bank), question, response, value)

    def dependency(self, setting: Setting, policy: VisionLanguageModel) -> list[float]:
        """k3 of every response token of the bank."""
        scorer = setting.scorer(policy)

        def work(start: int, stop: int) -> list[float]:
            rollout = setting.frozen(policy, start, stop, scorer)
            masked = scorer.logp(rollout, View(image=self.corruption))
            return numbers(k3(rollout.logp_BGT, masked)[rollout.mask_BGT])

        return setting.over(work)


def shuffle(image: Image.Image, pieces: int, *seed: object) -> Image.Image:
    """The picture's pieces in a random order; a remainder at its right and lower edge stays."""
    width, height = image.size[0] // pieces, image.size[1] // pieces
    corners = [(x * width, y * height) for y in range(pieces) for x in range(pieces)]
    made = image.copy()
    for (x, y), (left, top) in zip(corners, stable_rng(*seed, "shuffle").sample(corners, len(corners)), strict=True):
        made.paste(image.crop((left, top, left + width, top + height)), (x, y))
    return made
