"""What is kept, and which response becomes the reference. METHODS section 7, PaDLayer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mmcredit.preparation.files import Row
from mmcredit.services.judge import Verdict

Duel = tuple[str, str, str]  # sample id, challenger, holder


def balanced(rows: Sequence[Row], per_domain: int | None) -> list[Row]:
    """The first ``per_domain`` rows of each family, in order; null: all."""
    seen: dict[str, int] = {}
    kept = []
    for row in rows:
        seen[row["family"]] = seen.get(row["family"], 0) + 1
        if per_domain is None or seen[row["family"]] <= per_domain:
            kept.append(row)
    return kept


def relevance_fault(row: Row, least: float) -> str | None:
    """Why a sample is dropped for its question: ``unanswered``, ``irrelevant``."""
    if "failure" in row:
        return "unanswered"
    return "irrelevant" if row["relevance"] < least else None


def learnability_fault(row: Row, low: float, high: float) -> str | None:
    """Why a sample is dropped for the policy's responses: ``too_hard``, ``too_easy``, or ``format`` where no right
    response is well formed."""
    accuracy = sum(row["correct"]) / len(row["correct"])
    if not low <= accuracy <= high:
        return "too_hard" if accuracy < low else "too_easy"
    return None if candidates(row) else "format"


def caption_fault(row: Row) -> str | None:
    """Why a sample is dropped for its description: ``unanswered``."""
    return "unanswered" if "failure" in row else None


def candidates(row: Row) -> list[str]:
    """Distinct right and well-formed responses of a rollout row, in order."""
    fit = [r for r, right, kept in zip(row["responses"], row["correct"], row["format"], strict=True) if right and kept]
    return list(dict.fromkeys(fit))


@dataclass(frozen=True, slots=True)
class Winner:
    """The best of a sample's candidates."""

    text: str
    duels: int  # comparisons made
    failures: int  # of them without an answer: the holder stays
    ties: int  # of them: the holder stays


def best_of(
    contests: Mapping[str, Sequence[str]], decide: Callable[[Sequence[Duel]], Sequence[Verdict]]
) -> dict[str, Winner]:
    """The candidate that holds against all that follow it; each round is one call for all samples.

    Args:
        contests: sample id -> at least one candidate.
        decide: whether each challenger is better than the holder.
    """
    best = {name: Winner(texts[0], 0, 0, 0) for name, texts in contests.items()}
    for turn in range(1, max((len(texts) for texts in contests.values()), default=0)):
        duels = [(name, texts[turn], best[name].text) for name, texts in contests.items() if len(texts) > turn]
        for (name, challenger, holder), verdict in zip(duels, decide(duels), strict=True):
            before = best[name]
            best[name] = Winner(
                challenger if verdict.preferred is True else holder,
                before.duels + 1,
                before.failures + (verdict.failure is not None),
                before.ties + verdict.tie,
            )
    return best
