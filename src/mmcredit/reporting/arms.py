"""Arms: the runs of a comparison that differ in their seed only, and what to call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mmcredit.reporting.runs import RunFolder

LONGEST = 60  # characters of settings in a name


@dataclass(frozen=True)
class Arm:
    """Runs of one configuration, by seed."""

    name: str
    runs: dict[int, RunFolder]
    settings: Mapping[str, str] = field(default_factory=dict)  # that a number in the name stands for


def arms(runs: Sequence[RunFolder]) -> tuple[list[Arm], list[str]]:
    """Runs by configuration, in order of appearance, and remarks on runs left out for a seed that is there already.

    An arm is named by its methods, and, among those of the same methods, by the settings that differ; where these are
    long, by a number.
    """
    groups: list[tuple[dict[str, Any], dict[int, RunFolder]]] = []
    remarks = list[str]()
    for run in runs:
        same = next((members for conditions, members in groups if conditions == run.conditions), None)
        if same is None:
            groups.append((run.conditions, same := {}))
        elif run.seed in same:
            remarks.append(f"{same[run.seed].path}: left out, {run.path} is a later run of the same configuration and "
                           f"seed {run.seed}")  # fmt: skip
        same[run.seed] = run
    chains = [next(iter(members.values())).chain for _, members in groups]
    found = list[Arm]()
    for i, (_, members) in enumerate(groups):
        alike = [j for j, chain in enumerate(chains) if chain == chains[i]]
        settings = differing([groups[j][0] for j in alike])
        names = [", ".join(f"{key}={value}" for key, value in own.items()) for own in settings]
        place, ordered = alike.index(i), dict(sorted(members.items()))
        if len({*names}) < len(names) or max(map(len, names)) > LONGEST:
            found.append(Arm(f"{chains[i]} ({place + 1})", ordered, settings[place]))
        else:
            found.append(Arm(", ".join(filter(None, (chains[i], names[place]))), ordered))
    return found, remarks


def differing(conditions: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Of each configuration, the settings in which it differs from any other; ``-`` where it has none of that name."""
    keys = dict.fromkeys(key for each in conditions for key in each)
    shown = [{key: str(each.get(key, "-")) for key in keys} for each in conditions]
    return [{k: v for k, v in each.items() if any(v != other[k] for other in shown)} for each in shown]
