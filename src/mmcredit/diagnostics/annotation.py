"""Claims of responses from a router, and their labels: for reference banks and audits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mmcredit.diagnostics.bank import Claim
from mmcredit.services.claim_status import Labelled, StatusRequest
from mmcredit.services.router import Router, RoutingRequest
from mmcredit.services.service import Service
from mmcredit.types import Sample

Claims = tuple[Claim, ...] | str  # or the kind of fault
UNLABELLED = "unlabelled"


def routed(router: Router, samples: Sequence[Sample], texts: Sequence[str]) -> list[Claims]:
    """Claims of each response, without labels."""
    requests = [RoutingRequest(sample, text) for sample, text in zip(samples, texts, strict=True)]
    return [
        answer.failure or tuple(Claim(span, where, None) for span, where in answer.spans)
        for answer in router.submit(requests).result()
    ]


def labelled(
    labels: Service[StatusRequest, Labelled], samples: Sequence[Sample], texts: Sequence[str], claims: Sequence[Claims]
) -> list[Claims]:
    """The claims with the label of every direct one; a response that lacks one is ``UNLABELLED``."""
    direct = [
        () if isinstance(own, str) else tuple(c.where for c in own if c.span.eligible) for own in claims
    ]  # fmt: skip
    asked = {i: StatusRequest(samples[i], texts[i], spans) for i, spans in enumerate(direct) if spans}
    answers = dict(zip(asked, labels.submit(list(asked.values())).result(), strict=True))
    return [_with(own, answers[i]) if i in asked else own for i, own in enumerate(claims)]


def _with(claims: Claims, answer: Labelled) -> Claims:
    assert not isinstance(claims, str)
    if answer.failure or None in answer.statuses:
        return answer.failure or UNLABELLED
    statuses = iter(answer.statuses)
    return tuple(replace(claim, status=next(statuses)) if claim.span.eligible else claim for claim in claims)
