"""The embedded world's router: exact, for free."""

from __future__ import annotations

from mmcredit.data.world.grammar import Claim, parse
from mmcredit.functional import stable_rng
from mmcredit.services.claims import MAX_SPANS, ClaimSpan, Routing
from mmcredit.services.router import LocalRouter
from mmcredit.types import Sample, UserError


class OracleRouter(LocalRouter):
    """Visual claims of the world's grammar are routed, right or wrong; its other phrases are controls.

    Args:
        delay_seconds: answers are held back for that long.
        failure_rate: share of responses that fail with kind ``injected``, 0..1; drawn by a hash of the request.

    Raises:
        UserError: a sample whose source does not know all objects; a failure rate outside 0..1.
    """

    name = "router=oracle"
    embedded = True

    def __init__(self, delay_seconds: float = 0.0, failure_rate: float = 0.0) -> None:
        if not 0 <= failure_rate <= 1:
            raise UserError(f"router.failure_rate={failure_rate} must lie in 0..1")
        super().__init__(delay_seconds)
        self.failure_rate = failure_rate

    def route(self, sample: Sample, response: str) -> Routing:
        """The grammar's claims before the final answer."""
        if not sample.objects:
            raise UserError(
                f"router=oracle knows only the embedded world (data=world), and sample {sample.id!r} lists no objects; "
                "type router=rules, or router=openai with router.chat.model=..."
            )
        if stable_rng("router failure", sample.id, response).random() < self.failure_rate:
            return Routing(failure="injected")
        claims = parse(response)
        kept = tuple((as_span(c, response), (c.start, c.end)) for c in claims[:MAX_SPANS])
        return Routing(kept, dropped=len(claims) - len(kept))


def as_span(claim: Claim, response: str) -> ClaimSpan:
    """A claim of the grammar in the words of the router's schema."""
    return ClaimSpan(
        text=response[claim.start : claim.end],
        span_group="direct_vef" if claim.visual else "non_vef_control",
        is_vef=claim.visual,
        vef_role="direct" if claim.visual else "none",
        requires_current_image=claim.visual,
        contains_inference=False,
        assertion_status="asserted",
        evidence_in_question_text=False,
    )
