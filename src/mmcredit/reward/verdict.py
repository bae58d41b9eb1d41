"""What a verifier says of an answer, and the rules it is given."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from mmcredit.data.answers import Kind
from mmcredit.types import UserError


class Outcome(StrEnum):
    """Only ``RIGHT`` earns the reward; the others are counted apart."""

    RIGHT = "right"
    WRONG = "wrong"
    UNPARSABLE = "unparsable"  # no answer, or none that can be compared with this gold answer
    TIMED_OUT = "timed_out"  # the comparison hit its limit of time or memory


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome and where it comes from.

    Args:
        kind: of the gold answer.
        stage: what decided: ``gold`` (unparsable), ``extract``, ``written`` (as the gold answer), ``letter``,
            ``choice``, ``words``, ``structure``, ``units``, ``exact``, ``tolerance``, ``numeric``, ``bound`` (too large
            to be evaluated), ``symbolic``, or the name of another backend.
        error: what went wrong, for the log; empty if nothing did.
    """

    outcome: Outcome
    kind: Kind
    stage: str
    error: str = ""

    @property
    def right(self) -> bool:
        return self.outcome is Outcome.RIGHT


TOLERANCES, UNITS = ("exact", "decimal_places", "relative"), ("match", "ignore")


@dataclass(frozen=True)
class Policy:
    """What the corpus leaves open.

    Args:
        accept_percent: 0.5 and 50% are equal. A percent sign on one side only is otherwise ignored.
        tolerance: ``exact``; ``decimal_places``: a decimal gold answer is right for what rounds to it; ``relative``.
        relative: largest relative difference under ``relative``.
        units: ``match``: two units must measure the same, and are converted; ``ignore``. A missing unit is never wrong.
        ordered: items of a list without brackets must come in the order of the gold answer; those of a set never must.
        decimal_comma: ``0,5`` may be read as 0.5 where a number is wanted.
        inequality_for_interval: ``0<x<1`` is right for (0,1); the reverse always is.

    Raises:
        UserError: an unknown option.
    """

    accept_percent: bool = True
    tolerance: str = "exact"
    relative: float = 0.01
    units: str = "match"
    ordered: bool = True
    decimal_comma: bool = True
    inequality_for_interval: bool = False

    def __post_init__(self) -> None:
        if self.tolerance not in TOLERANCES or not 0 <= self.relative < 1:
            raise UserError(
                f"reward.verifier.policy.tolerance={self.tolerance!r} must be one of {', '.join(TOLERANCES)}, "
                f"relative={self.relative} in 0..1"
            )
        if self.units not in UNITS:
            raise UserError(f"reward.verifier.policy.units={self.units!r} must be one of {', '.join(UNITS)}")
