"""The embedded world's judges: exact, for free. They read the grammar's claims, those before the final answer."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from mmcredit.data.world.grammar import Claim, judge, parse
from mmcredit.data.world.grammar import Verdict as ClaimVerdict
from mmcredit.functional import stable_rng
from mmcredit.services.judge import Comparison, FactRequest, Score, ThinkingRequest, Verdict
from mmcredit.services.service import A, LocalService, Q, Ready
from mmcredit.types import SceneObject, UserError


class Oracle(LocalService[Q, A]):
    """Base of the judges below. A request that is not of the embedded world fails with kind ``unknown_scene``.

    Args:
        delay_seconds: answers are held back for that long.
        failure_rate: share of requests that fail with kind ``injected``, 0..1; drawn by a hash of the request.

    Raises:
        UserError: a failure rate outside 0..1; pictures in a submit of which none is of the embedded world.
    """

    name = "judge=oracle"
    embedded = True
    failed: Callable[..., Any]  # makes the answer of a ``failure``

    def __init__(self, delay_seconds: float = 0.0, failure_rate: float = 0.0) -> None:
        if not 0 <= failure_rate <= 1:
            raise UserError(f"judge.failure_rate={failure_rate} must lie in 0..1")
        super().__init__(delay_seconds)
        self.failure_rate = failure_rate

    @abstractmethod
    def decide(self, request: Q) -> A:
        """The answer to a request of the embedded world."""

    def knows(self, request: Any) -> bool:
        """Whether it is of the embedded world."""
        return bool(request.sample.objects)

    def answer(self, request: Any) -> A:
        """See ``LocalService``."""
        if not self.knows(request):
            return self.failed(failure="unknown_scene")
        if stable_rng("judge failure", *request.key).random() < self.failure_rate:
            return self.failed(failure="injected")
        return self.decide(request)

    def submit(self, requests: Sequence[Any]) -> Ready[A]:
        """See ``Service``."""
        if requests and all(r.sample.images and not self.knows(r) for r in requests):
            raise UserError(
                f"judge=oracle knows only the embedded world (data=world), and sample {requests[0].sample.id!r} is not "
                "of it; type judge=openai judge.chat.model=..."
            )
        return super().submit(requests)


class OracleJudge(Oracle[Comparison, Verdict]):
    """Prefers the response with fewer contradicted claims; of equals the one with more supported visual claims; of
    equals neither. What both say of the final answer does not matter."""

    failed = Verdict

    def decide(self, request: Comparison) -> Verdict:
        """Compare the tallies."""
        (supported, errors), (others, flaws) = (
            tally(text, request.sample.objects) for text in (request.response, request.reference)
        )
        response, reference = (-len(errors), supported), (-len(flaws), others)
        self.counters["ties"] += response == reference
        return Verdict(None if response == reference else response > reference, errors)


def tally(response: str, objects: Sequence[SceneObject]) -> tuple[int, tuple[str, ...]]:
    """Number of supported visual claims (a denial said twice counts once), and the contradicted ones in words."""
    claims = parse(response)
    judged = list(zip(claims, judge(claims, objects), strict=True))
    supported = [claim for claim, verdict in judged if verdict is ClaimVerdict.SUPPORTED]
    denials = {meaning(claim) for claim in supported if claim.negated}
    wrong = tuple(response[c.start : c.end] for c, verdict in judged if verdict is ClaimVerdict.CONTRADICTED)
    return sum(not claim.negated for claim in supported) + len(denials), wrong


class OracleFacts(Oracle[FactRequest, Score]):
    """Share of the facts (phrases of the grammar) that the response states in the same terms: ``red circle`` does not
    state ``red circle top left``. A fact given twice must be stated twice."""

    failed = Score

    def knows(self, request: FactRequest) -> bool:
        """Every fact is one phrase."""
        return all(len(parse(fact)) == 1 for fact in request.facts)

    def decide(self, request: FactRequest) -> Score:
        """Count the facts that are met."""
        wanted = Counter(meaning(claim) for fact in request.facts for claim in parse(fact))
        stated = Counter(meaning(claim) for claim in parse(request.response))
        return Score((wanted & stated).total() / len(request.facts))


class OracleThinking(Oracle[ThinkingRequest, Score]):
    """Share of the response's claims that the picture does not contradict; 0 without any claim."""

    failed = Score

    def decide(self, request: ThinkingRequest) -> Score:
        """Judge the claims."""
        verdicts = judge(parse(request.response), request.sample.objects)
        return Score(sum(v is not ClaimVerdict.CONTRADICTED for v in verdicts) / max(len(verdicts), 1))


def meaning(claim: Claim) -> tuple[bool, str | None, str | None, str | None]:
    """What a claim says, wherever it stands."""
    return claim.negated, claim.color, claim.shape, claim.corner
