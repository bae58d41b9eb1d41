"""Candidate answers shown to a privileged teacher, and the pieces that methods with such a teacher share.

The right hint is the gold answer. Wrong hints are wrong final answers of a response's siblings, the other responses to
its prompt. Both read the same but for the answer, which stands as its author wrote it: in lower case, say, an option
letter would tell by its looks which of the two it is.

Suffixes: B prompts, G group, T tokens, K wrong hints.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from mmcredit.data.answers import same_key
from mmcredit.scoring.views import Hints
from mmcredit.types import Rollout, Sample, UserError

TEMPLATE = "Privileged candidate answer: {answer}"  # PACE, section 4.1


@lru_cache(maxsize=2**16)
def answer_key(answer: str | None) -> str:
    """Equal for answers that are the same: the value of a number, else the normalised text; "" for no answer."""
    return same_key(unicodedata.normalize("NFC", answer or ""))


def wrong_answers(answers: Sequence[str | None], correct: Sequence[bool], gold: str) -> dict[str, str]:
    """Distinct wrong answers of a group, by ``answer_key``: the most frequent first, ties in the order of the keys.

    Each is spelt as most responses spell it, ties in alphabetical order. The gold answer is never among them, even
    where the verifier did not recognise it.
    """
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for answer, right in zip(answers, correct, strict=True):
        key = answer_key(answer)
        if answer is not None and key not in ("", answer_key(gold)) and not right:
            spellings[key][_one_line(answer)] += 1
    order = sorted(spellings, key=lambda key: (-spellings[key].total(), key))
    return {key: min(spellings[key], key=lambda s: (-spellings[key][s], s)) for key in order}


def unknown_hints(count: int) -> list[Hints]:
    """Stand-ins, all different, for hints that only a rollout will give."""
    return [Hints(((f"hint {k}",),)) for k in range(count)]


def gold_hints(rollout: Rollout, template: str = TEMPLATE) -> Hints:
    """The gold answer for every response; none where a sample has no answer."""
    golds = [sample.answer if answer_key(sample.answer) else None for sample in rollout.prompts.samples]
    return _hints([[gold] * rollout.shape[1] for gold in golds], template)


def solution_hints(rollout: Rollout, template: str) -> Hints:
    """What replaces ``{solution}`` for every response: the worked solution of its sample, else the gold answer; none
    where a sample has neither."""
    golds = [sample.answer if answer_key(sample.answer) else "" for sample in rollout.prompts.samples]
    texts = [s.meta.get("solution", gold).strip() for s, gold in zip(rollout.prompts.samples, golds, strict=True)]
    lines = [template.replace("{solution}", text) if text else None for text in texts]
    return Hints(tuple((line,) * rollout.shape[1] for line in lines))


def sibling_hints(rollout: Rollout, most: int, template: str = TEMPLATE) -> list[Hints]:
    """``most`` (K) hints a response: wrong answers of its siblings other than its own answer, most frequent first.

    A response with k < K of them has none in the hints k+1 .. K. The order of the responses in a group is irrelevant.
    """
    found: list[list[list[str]]] = []
    for answers, correct, sample in _groups(rollout):
        wrong = wrong_answers(answers, correct, sample.answer)
        found.append([[text for key, text in wrong.items() if key != answer_key(own)] for own in answers])
    return [
        _hints([[texts[k] if k < len(texts) else None for texts in group] for group in found], template)
        for k in range(most)
    ]


def rejected_hints(rollout: Rollout, template: str = TEMPLATE) -> Hints:
    """The wrong answer of each response's lowest-reward sibling that gave one; ties as in ``wrong_answers``.

    It may be the response's own answer, if a sibling gave it, too.
    """
    found: list[list[str | None]] = []
    for (answers, correct, sample), rewards in zip(_groups(rollout), rollout.reward_BG.tolist(), strict=True):
        found.append([])
        for own in range(len(answers)):
            others = [i for i in range(len(answers)) if i != own]
            others = [i for i in others if wrong_answers([answers[i]], [correct[i]], sample.answer)]
            lowest = min((rewards[i] for i in others), default=None)
            worst = [answers[i] for i in others if rewards[i] == lowest]
            found[-1].append(next(iter(wrong_answers(worst, [False] * len(worst), sample.answer).values()), None))
    return _hints(found, template)


def hinted(rollout: Rollout, hints: Hints) -> Tensor:
    """[B, G] bool, the responses that have a hint."""
    lines = [line is not None for group in hints.lines for line in group]
    return torch.tensor(lines, dtype=torch.bool).view(rollout.shape[:2])


def only(hints: Hints, where_BG: Tensor) -> Hints:
    """The hints of some responses; the others get none."""
    rows = zip(hints.lines, where_BG.tolist(), strict=True)
    return Hints(
        tuple(tuple(line if kept else None for line, kept in zip(lines, keep, strict=True)) for lines, keep in rows)
    )


def log_mean_exp(logp_KBGT: Tensor, given_KBG: Tensor) -> Tensor:
    """[B, G, T] logsumexp_k - log K over the hints that a response has: log of the mean probability; 0 without any."""
    kept = given_KBG[..., None]
    total = logp_KBGT.masked_fill(~kept, -torch.inf).logsumexp(0)
    return torch.where(kept.any(0), total - kept.sum(0).clamp(min=1).log(), 0.0)


def mean_logp(logp_KBGT: Tensor, given_KBG: Tensor) -> Tensor:
    """[B, G, T] mean log-prob over the hints that a response has; 0 without any."""
    kept = given_KBG[..., None]
    return (logp_KBGT * kept).sum(0) / kept.sum(0).clamp(min=1)


def sign_weight(signal_BGT: Tensor, advantage_BGT: Tensor, low: float, high: float) -> Tensor:
    """[B, G, T] clip(exp(sign(A) signal), low, high), the token weight of RLSD; 1 where A = 0; the signal in nats.
    METHODS section 6."""
    return (advantage_BGT.sign() * signal_BGT).exp().clamp(low, high)


def mixed_advantage(advantage_BGT: Tensor, signal_BGT: Tensor, lam: float, low: float, high: float) -> Tensor:
    """[B, G, T] A ((1 - lam) + lam sign_weight), not renormalised: RLSD and CEPO. METHODS section 6."""
    return advantage_BGT * ((1 - lam) + lam * sign_weight(signal_BGT, advantage_BGT, low, high))


def linear_decay(start: float, steps: int | None, step: int) -> float:
    """From ``start`` at rollout step 0 to 0 at ``steps`` and after; always ``start`` if ``steps`` is None."""
    return start if steps is None else start * max(0.0, 1 - step / steps)


def check_teacher(name: str, template: str, refresh_every: int | None, low: float = 1.0, high: float = 1.0) -> None:
    """What methods with a hinted teacher have in common.

    Raises:
        UserError: a template without a place for the answer, no refresh interval, or weight bounds that exclude 1.
    """
    if "{answer}" not in template:
        raise UserError(f"callbacks.{name}.template={template!r} must contain {{answer}}, where the answer goes")
    if not isinstance(refresh_every, int) or refresh_every < 1:
        raise UserError(f"callbacks.{name}.refresh_every={refresh_every} must be a whole number of at least 1")
    if not 0 < low <= 1 <= high:
        raise UserError(
            f"callbacks.{name}.weight_low={low}, callbacks.{name}.weight_high={high}: "
            "need 0 < weight_low <= 1 <= weight_high"
        )


def check_strength(name: str, lam: float, decay_steps: int | None) -> None:
    """A strength in 0..1 that fades over at least one step, or not at all.

    Raises:
        UserError: it is another.
    """
    if not 0 <= lam <= 1 or (decay_steps is not None and decay_steps < 1):
        raise UserError(
            f"callbacks.{name}.lam={lam} must be in 0..1, callbacks.{name}.decay_steps={decay_steps} at least 1 or null"
        )


def _groups(rollout: Rollout) -> Iterator[tuple[Sequence[str | None], list[bool], Sample]]:
    grades = rollout.grades
    return zip(grades.answers, grades.correct_BG.tolist(), rollout.prompts.samples, strict=True)


def _one_line(answer: str) -> str:
    return " ".join(answer.split())


def _hints(answers: Sequence[Sequence[str | None]], template: str) -> Hints:
    return Hints(
        tuple(
            tuple(None if a is None else template.replace("{answer}", _one_line(a)) for a in group) for group in answers
        )
    )
