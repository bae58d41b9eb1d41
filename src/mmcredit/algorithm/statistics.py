"""Statistics of a step's rewards and responses, before any method's own. B prompts, G group."""

from __future__ import annotations

from collections import Counter, defaultdict

import torch
from torch import Tensor

from mmcredit.credit import Record
from mmcredit.functional import gather, zero_variance
from mmcredit.types import Rollout


def describe(rollout: Rollout, advantage_BG: Tensor, record: Record) -> None:
    """Statistics of the rewards and responses of a step, before any method's own."""
    grades, rule_BG, reward_BG = rollout.grades, rollout.grades.reward_BG, rollout.reward_BG
    correct = grades.correct_BG
    record.responses("reward/total", reward_BG)
    record.responses("reward/rule", rule_BG)
    record.scalar("reward/accuracy", correct.float().mean())
    record.scalar("reward/format", grades.format_BG.float().mean())
    if grades.outcomes is not None:
        record.scalar("reward/unparsable_rate", share(grades.outcomes, "unparsable"))
        record.scalar("reward/timeout_rate", share(grades.outcomes, "timed_out"))
    record.histogram("credit/advantage", advantage_BG)
    record.scalar("reward/non_constant_rate", (~zero_variance(rule_BG)).float().mean())
    record.scalar("reward/zero_variance_rate", zero_variance(reward_BG).float().mean())
    record.scalar("reward/all_right_rate", correct.all(1).float().mean())
    record.scalar("reward/all_wrong_rate", (~correct).all(1).float().mean())
    record.scalar("reward/same_answer_different_reward_rate", same_answer_different_reward(rollout))
    record.histogram("rollout/length", rollout.mask_BGT.sum(-1))
    record.scalar("rollout/unfinished_rate", unfinished(rollout).float().mean())


def share(outcomes: tuple[tuple[str, ...], ...], wanted: str) -> float:
    """Share of the responses with this outcome."""
    found = [outcome == wanted for group in outcomes for outcome in group]
    return sum(found) / max(len(found), 1)


def same_answer_different_reward(rollout: Rollout) -> float:
    """Share of groups in which two responses with the same final answer got different rewards."""
    hits = 0
    for answers, rewards in zip(rollout.grades.answers, rollout.reward_BG.tolist(), strict=True):
        seen: dict[str, set[float]] = {}
        for answer, reward in zip(answers, rewards, strict=True):
            if answer is not None:
                seen.setdefault(answer, set()).add(reward)
        hits += any(len(found) > 1 for found in seen.values())
    return hits / max(len(rollout.grades.answers), 1)


def unfinished(rollout: Rollout) -> Tensor:
    """[B, G] bool, responses cut off by the length limit."""
    cut = [[spans[-1][0] != spans[-1][1] for spans in group] for group in rollout.responses.spans]
    return torch.tensor(cut, dtype=torch.bool)


def average_ranks(record: Record, prompts: int) -> None:
    """Make every scalar its mean over all ranks, weighted by the values behind it: a histogram's number of values,
    else this rank's number of ``prompts``. Histograms stay those of the rank."""
    histograms = record.histograms
    counts = {key: len(histograms[key]) if key in histograms else prompts for key in record.scalars}
    ranks = gather((record.scalars, counts))
    if len(ranks) == 1:
        return
    sums, weights = defaultdict[str, float](float), Counter[str]()
    for scalars, counted in ranks:
        for key, count in counted.items():
            if count:
                sums[key] += scalars[key] * count
                weights[key] += count
    record.scalars.update({key: sums[key] / weights[key] for key in sums})
