"""What the language model sees of each prompt's pictures under each view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from mmcredit.data.encode import Encoder
from mmcredit.models.features import ImageFeatures
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.scoring.edits import ImageEdit, Original, Picture
from mmcredit.scoring.rows import Job
from mmcredit.scoring.views import View, Weights
from mmcredit.types import Prompts, Rollout


class Sight:
    """Features of a rollout's prompts: the tower runs once a picture and pixel edit, feature edits come after it."""

    def __init__(self, models: Mapping[Weights, VisionLanguageModel], encoder: Encoder) -> None:
        self.models, self.encoder = models, encoder
        self._known: dict[Job, ImageFeatures | None] = {}

    def forget(self) -> None:
        """Drop everything: another rollout, or other weights."""
        self._known.clear()

    def edited(self, prompts: Prompts, edit: ImageEdit) -> Prompts:
        """The prompts with the pixels that the edit leaves of their pictures."""
        pixels = (
            None if shown is None else edit.pixels(shown, self._picture(prompts, b))
            for b, shown in enumerate(prompts.pixels)
        )
        return replace(prompts, pixels=tuple(pixels))

    def features(self, rollout: Rollout, jobs: Sequence[Job]) -> list[ImageFeatures | None]:
        """Of each job, all under the same weights; None for a prompt without pictures."""
        todo = [job for job in dict.fromkeys(jobs) if job not in self._known]
        self._run_tower(rollout, [job for job in dict.fromkeys(map(_seen, todo)) if job not in self._known])
        for job in todo:
            self._known[job] = self._changed(rollout, job, self._known[_seen(job)])
        return [self._known[job] for job in jobs]

    def trained_features(self, micro: Rollout, view: View) -> list[ImageFeatures | None]:
        """Of each prompt under the policy as it is now, with gradients where the tower is trained."""
        policy, jobs = self.models[Weights.OLD], [(view, b) for b in range(len(micro.prompts))]
        if view.image.touches_pixels:
            seen = policy.features([self._shown(micro, job) for job in jobs], micro.prompts.grids)
        else:
            seen = policy.features_of(micro.prompts)
        return [self._changed(micro, job, base) for job, base in zip(jobs, seen, strict=True)]

    def _run_tower(self, rollout: Rollout, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        model, prompts = self.models[jobs[0][0].weights], rollout.prompts
        plain = [job for job in jobs if not job[0].image.touches_pixels]
        self._known.update(zip(plain, model.features_of(prompts.pick([b for _, b in plain])), strict=True))
        edited = [job for job in jobs if job[0].image.touches_pixels]
        pixels = [self._shown(rollout, job) for job in edited]
        self._known.update(zip(edited, model.features(pixels, [prompts.grids[b] for _, b in edited]), strict=True))

    def _shown(self, rollout: Rollout, job: Job) -> Tensor | None:
        """[patches, patch_dim] pixels that the vision tower gets."""
        view, b = job
        pixels = rollout.prompts.pixels[b]
        return None if pixels is None else view.image.pixels(pixels, self._picture(rollout.prompts, b))

    def _changed(self, rollout: Rollout, job: Job, seen: ImageFeatures | None) -> ImageFeatures | None:
        """Features that the language model gets."""
        view, b = job
        return None if seen is None else view.image.features(seen, self._picture(rollout.prompts, b))

    def _picture(self, prompts: Prompts, b: int) -> Picture:
        grid, encoder = prompts.grids[b], self.encoder
        assert grid is not None, "a prompt without pictures has nothing to edit"
        return Picture(prompts.samples[b], grid, encoder.processor.merge, encoder.black, encoder.pixels)


def _seen(job: Job) -> Job:
    """The job whose pixels the vision tower sees: views that leave pixels alone share it."""
    view, b = job
    return View(view.weights, view.image if view.image.touches_pixels else Original()), b
