"""The final summary: printed, and written to ``<run>/summary.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import lightning

from mmcredit.data.datamodule import DataModule
from mmcredit.module import CreditModule

REPORTED = {
    "val_accuracy": "val/accuracy",
    "counter_prior_accuracy": "counter_prior/accuracy",
    "unsupported_rate": "val/unsupported_rate",
}


def scores(trainer: lightning.Trainer, module: CreditModule, data: DataModule) -> dict[str, float]:
    """Metrics of a validation of all sets."""
    if not data.val:
        return {}
    trainer.validate(module, datamodule=data, verbose=False)
    return {key: float(value) for key, value in trainer.callback_metrics.items()}


def summarise(
    module: CreditModule, end: Mapping[str, float], sets: Mapping[str, str], seconds: float
) -> dict[str, Any]:
    """Start and end of each reported metric (null where it was not measured), steps, seconds, tokens scored.

    Args:
        sets: fingerprints of the validation sets. The start of a resumed run counts where they are as they were.
    """
    summary: dict[str, Any] = {}
    measured = {key.split("/")[0] for key in module.start_metrics}
    other = {name for name in measured & sets.keys() if module.start_sets.get(name) != sets[name]}
    start = {key: value for key, value in module.start_metrics.items() if key.split("/")[0] not in other}
    for name, key in REPORTED.items():
        summary[f"{name}_start"], summary[f"{name}_end"] = start.get(key), end.get(key)
    summary |= {
        "start_not_comparable": sorted(other),
        "steps": module.rollout_step,
        "optimizer_steps": module.optimizer_steps,
        "seconds": round(seconds, 1),
        "seconds_by_stage": {stage: round(value, 2) for stage, value in sorted(module.seconds.items())},
        "tokens": dict(module.meter.tokens()),
        "layouts": dict(module.scorer.layouts),
        "extra_views": extra_views(module),
        "methods": [type(method).__name__ for method in module.chain],
        "metrics_start": start,
        "metrics_end": dict(end),
    }
    return summary


def extra_views(module: CreditModule) -> dict[str, int]:
    """Views beside the policy's own that a step scores: by method, and together, equal ones counted once."""
    views = {type(method).__name__: method.extra_views(module.scorer.seed) for method in module.chain}
    return {name: len(own) for name, own in views.items()} | {"together": len(set().union(*views.values()))}


def print_summary(summary: Mapping[str, Any]) -> None:
    """The reported metrics, start -> end, or the end alone."""
    for name in REPORTED:
        start, end = summary[f"{name}_start"], summary[f"{name}_end"]
        if start is not None and end is not None:
            print(f"{name:24s} {start:.3f} -> {end:.3f} ({end - start:+.3f})")
        elif end is not None:
            print(f"{name:24s} {end:.3f}")
    if other := summary["start_not_comparable"]:
        was = "had other questions, template or sampling then, or none noted"
        print(f"{'start':24s} not comparable: {', '.join(other)} {was}")
    print(f"{'steps':24s} {summary['steps']} rollout, {summary['optimizer_steps']} optimizer")
    print(f"{'seconds':24s} {summary['seconds']}")
    shares = sorted(summary["seconds_by_stage"].items(), key=lambda stage: -stage[1])
    print(f"{'  of steps':24s} {', '.join(f'{stage} {value:.1f}' for stage, value in shares if value >= 0.05)}")
    tokens = summary["tokens"]
    print(f"{'tokens scored':24s} {tokens['computed']:,} ({tokens['padded']:,} with one padded row a response)")
    layouts = ", ".join(f"{count:,} {kind}" for kind, count in summary["layouts"].items())
    print(f"{'groups by layout':24s} {layouts} rows")
