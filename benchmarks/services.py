"""(g) A slow claim router: asked right after sampling, it answers while log-probs are computed."""

from __future__ import annotations

from functools import partial

from benchmarks.methods import same_step
from benchmarks.ours import FIXED, NATURAL, Steps
from benchmarks.settings import Settings
from benchmarks.table import Row, Table
from benchmarks.timing import interleave, middle, ratio, stages
from mmcredit.callbacks.pacg import PACG
from mmcredit.services.oracle_router import OracleRouter

LATENCIES = (0.2, 0.4, 0.8)  # of a step's time


def run(settings: Settings) -> list[Table]:
    """The table of this section."""
    steps = Steps(settings, *NATURAL, *FIXED, "template=think")
    prompt = partial(same_step, steps, (PACG(OracleRouter(), min_residual=4),))
    alone = middle(interleave({"alone": prompt}, settings.repetitions)["alone"], "step")
    calls = {"0.0": prompt}
    for share in LATENCIES:
        slow = PACG(OracleRouter(delay_seconds=share * alone), min_residual=4, score_ahead=True)
        calls[str(share)] = partial(same_step, steps, (slow,))
    found = interleave(calls, settings.repetitions)
    prompt_steps = [run["step"] for run in found["0.0"]]
    rows: list[Row] = [
        {"latency": share, **ratio([run["step"] for run in runs], prompt_steps, "growth"), **stages(runs)}
        for share, runs in found.items()
    ]
    title = f"(g) step with PACG and a router that answers after a share of a step: {settings.prompts} prompts"
    return [Table(title, rows, ["asked and waited for at once, the step would grow by the latency"])]
