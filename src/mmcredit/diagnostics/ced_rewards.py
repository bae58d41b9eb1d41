"""What CED's margin makes of the reward of a bank's responses. Evidence-RL, section 4.1, appendices A.6, A.8, A.9."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch

from mmcredit.data.answers import same_key
from mmcredit.diagnostics.ced_margins import Measured, win
from mmcredit.diagnostics.draws import Draws, Resampler
from mmcredit.functional import zero_variance

Groups = Mapping[int, Sequence[Measured]]  # question -> its responses


def grouped(rows: Sequence[Measured]) -> Groups:
    """Questions with at least two measured responses."""
    found: dict[int, list[Measured]] = {}
    for row in rows:
        found.setdefault(row.question, []).append(row)
    return {question: group for question, group in found.items() if len(group) > 1}


def _rate(groups: Groups, resampler: Resampler, judge: Callable[[Sequence[Measured]], float]) -> Draws:
    value_Q = np.full(resampler.clusters, np.nan)
    for question, group in groups.items():
        value_Q[question] = judge(group)
    return resampler.mean(value_Q)


def varies(values: Sequence[float]) -> bool:
    """Whether a group of rewards gives any advantage."""
    return not bool(zero_variance(torch.tensor([values], dtype=torch.float32)))


def answers_vary(group: Sequence[Measured]) -> float:
    """Whether two equal answers got different rewards; nan where all answers differ."""
    by_answer: dict[str, list[float]] = {}
    for row in group:
        by_answer.setdefault(same_key(row.answer or ""), []).append(row.reward)
    shared = [rewards for rewards in by_answer.values() if len(rewards) > 1]
    return float(any(map(varies, shared))) if shared else float("nan")


def tells_right_from_wrong(group: Sequence[Measured], tie: float) -> float:
    """Share of (right, wrong) pairs in which the right answer depends more on the evidence; nan without such a pair."""
    right = [row.s_ev for row in group if row.correct]
    wrong = [row.s_ev for row in group if not row.correct]
    wins = [win(a - b, tie) for a in right for b in wrong]
    return sum(wins) / len(wins) if wins else float("nan")


def rewards(rows: Sequence[Measured], golds: Sequence[str], resampler: Resampler) -> dict[str, Draws]:
    """Rates over groups, correlations over responses, and the gap between answers "yes" and "no".

    Args:
        golds: gold answer of every question of the bank.
    """
    groups = grouped(rows)
    question, reward, length, area = (
        np.array([getattr(row, key) for row in rows], dtype=int if key == "question" else float)
        for key in ("question", "reward", "length", "area")
    )
    found = {
        "non-constant raw reward": _rate(groups, resampler, lambda g: varies([row.raw_reward for row in g])),
        "zero-variance reward": _rate(groups, resampler, lambda g: not varies([row.reward for row in g])),
        "non-constant correctness": _rate(groups, resampler, lambda g: varies([row.correct for row in g])),
        "same answer, different reward": _rate(groups, resampler, answers_vary),
        "reward-length correlation": resampler.correlation(question, reward, length),
        "reward-area correlation": resampler.correlation(question, reward, area),
    }
    polar = [row for row in rows if golds[row.question].strip().lower() in ("yes", "no")]
    for name, value in (("reward", "reward"), ("correctness", "correct")):
        said = {word: _polar(polar, word, value, resampler) for word in ("yes", "no")}
        found[f"yes - no gap of {name}"] = said["yes"] - said["no"]
    return found


def discrimination(rows: Sequence[Measured], resampler: Resampler, tie: float) -> Draws:
    """``tells_right_from_wrong``, mean over questions."""
    return _rate(grouped(rows), resampler, partial(tells_right_from_wrong, tie=tie))


def _polar(rows: Sequence[Measured], word: str, value: str, resampler: Resampler) -> Draws:
    """Mean of a value over the responses that answer so."""
    top, bottom = np.zeros(resampler.clusters), np.zeros(resampler.clusters)
    for row in rows:
        if (row.answer or "").strip().lower() == word:
            top[row.question] += float(getattr(row, value))
            bottom[row.question] += 1
    return resampler.ratio(top, bottom)
