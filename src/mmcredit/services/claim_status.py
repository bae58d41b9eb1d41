"""Whether the picture bears a claim out: labels of a frozen reference bank and of audits. Training never reads them.

PACG, https://arxiv.org/abs/2609.36572v3, appendix D: ``supported``, or else ``contradicted`` or ``unsupported``, which
count alike.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from mmcredit.data.world.grammar import Verdict, judge, parse
from mmcredit.services.service import LocalService
from mmcredit.types import Sample, Span, UserError

SUPPORTED = "supported"
STATUSES = (SUPPORTED, "contradicted", "unsupported")


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """The direct visual claims of a response, as half-open character intervals."""

    sample: Sample
    response: str
    claims: tuple[Span, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """See ``Request``."""
        return self.sample.id, self.sample.question, self.response, *(f"{a}-{b}" for a, b in self.claims)


@dataclass(frozen=True, slots=True)
class Labelled:
    """One of ``STATUSES`` a claim, in their order; None for a claim that nobody labelled.

    Example: ``Labelled(("supported", "contradicted"))``, ``Labelled(failure="timeout")``
    """

    statuses: tuple[str | None, ...] = ()
    failure: str | None = None  # kind of fault; None when the service answered


class OracleStatus(LocalService[StatusRequest, Labelled]):
    """The embedded world's exact labels, for free.

    Raises:
        UserError: a sample whose source does not know all objects.
    """

    name = "labels=oracle"
    embedded = True

    def answer(self, request: StatusRequest) -> Labelled:
        """See ``LocalService``."""
        sample, claims = request.sample, parse(request.response)
        if not sample.objects:
            raise UserError(
                f"labels=oracle knows only the embedded world (data=world), and sample {sample.id!r} lists no objects; "
                "type labels=openai labels.chat.model=..., or labels=file labels.path=..."
            )
        verdicts = zip(claims, judge(claims, sample.objects), strict=True)
        names = {Verdict.SUPPORTED: SUPPORTED, Verdict.CONTRADICTED: "contradicted"}
        known = {(claim.start, claim.end): names.get(verdict) for claim, verdict in verdicts}
        return Labelled(tuple(known.get(where) for where in request.claims))


class FileStatus(LocalService[StatusRequest, Labelled]):
    """Labels made elsewhere: JSON lines of ``id``, ``response``, ``start``, ``end`` and ``status``.

    Args:
        path: the file.

    Raises:
        UserError: no such file, or a line that is none of these.
    """

    name = "labels=file"

    def __init__(self, path: str | Path | None) -> None:
        super().__init__()
        if path is None or not (file := Path(path).expanduser()).is_file():
            raise UserError(f"labels.path={path} must be a file of claims with their status, one JSON object a line")
        self.known: dict[tuple[str, str, int, int], str] = {}
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            try:
                row = json.loads(line)
                key = str(row["id"]), str(row["response"]), int(row["start"]), int(row["end"])
                status = row["status"]
            except (ValueError, TypeError, KeyError) as error:
                raise UserError(f"{file}:{number}: id, response, start, end, status are needed ({error!r})") from None
            if status not in STATUSES:
                raise UserError(f"{file}:{number}: status {status!r} must be one of {', '.join(STATUSES)}")
            self.known[key] = status

    def answer(self, request: StatusRequest) -> Labelled:
        """See ``LocalService``."""
        named = request.sample.id, request.response
        return Labelled(tuple(self.known.get((*named, *where)) for where in request.claims))
