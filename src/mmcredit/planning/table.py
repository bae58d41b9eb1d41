"""A plan as text."""

from __future__ import annotations

from mmcredit.planning.estimate import Plan
from mmcredit.planning.tokens import petaflop


def table(plan: Plan) -> str:
    """Parameters, memory and tokens in Markdown."""
    model, load = plan.model, plan.load
    lines = [
        f"{model.kind}, {model.total / 1e9:.2f} billion parameters ({plan.setup.trained / 1e9:.2f} trained); "
        f"each model on {plan.setup.gpus} GPU{'s' if plan.setup.gpus > 1 else ''}",
        "",
    ]
    lines += ["| memory of a GPU | GiB |", "|---|---|"]
    lines += [f"| {name} | {size:.1f} |" for name, size in plan.memory.items() if size >= 0.05]
    lines += [f"| **at most** | **{plan.peak:.1f}** of {plan.gpu_gib:.0f} |", ""]
    stages = load.stages()
    whole = sum(stages.values())
    lines += ["| stage of a step | million tokens | PFLOP | share |", "|---|---|---|---|"]
    for name, tokens in stages.items():
        if tokens:
            lines.append(f"| {name} | {tokens / 1e6:.2f} | {petaflop(tokens, model):.1f} | {tokens / whole:.0%} |")
    lines += [
        "",
        f"{load.prompts} prompts of {load.prompt_tokens} tokens, {load.group} responses of up to {load.new_tokens}; "
        f"rows share prompts: {load.packed / 1e6:.2f} instead of {load.padded / 1e6:.2f} million tokens a pass",
    ]
    return "\n".join(lines)
