"""The embedded world's captioner: what its source says of a scene."""

from __future__ import annotations

from mmcredit.services.captioner import Description, SampleRequest
from mmcredit.services.judge import Score
from mmcredit.services.service import LocalService


class OracleCaptioner(LocalService[SampleRequest, Description]):
    """The scene's own notes. A sample without any fails with kind ``unknown_scene``."""

    name = "captioner=oracle"
    embedded = True

    def answer(self, request: SampleRequest) -> Description:
        """See ``LocalService``."""
        meta = request.sample.meta
        if "pseudo_ground_truth" not in meta:
            return Description(failure="unknown_scene")
        return Description(meta["pseudo_ground_truth"], tuple(meta.get("key_facts", "").splitlines()))


class OracleRelevance(LocalService[SampleRequest, Score]):
    """1 for a question with a picture of the embedded world, whose every question is about it; 0 for one without."""

    name = "captioner=oracle"
    embedded = True

    def answer(self, request: SampleRequest) -> Score:
        """See ``LocalService``."""
        if request.sample.images and not request.sample.objects:
            return Score(failure="unknown_scene")
        return Score(float(bool(request.sample.images)))
