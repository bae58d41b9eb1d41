"""(a) This project's step against TRL's: same model, pictures, questions, number of new tokens, rewards, one thread.

TRL leads: its callback lets one of our steps run before each of its own. Both sides are timed from prompts in memory to
updated weights. On both sides tokens that stand for pixels are suppressed and no token ends a response.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
import warnings
from dataclasses import replace
from statistics import median
from typing import Any

from transformers import PrinterCallback, TrainerCallback

from benchmarks.ours import FORCED, MIXED, Steps, tokens_seen
from benchmarks.settings import Settings
from benchmarks.table import Row, Table
from benchmarks.timing import Seconds, ratio, stages
from mmcredit.models.load import load_policy
from mmcredit.models.processor import load_processor
from mmcredit.reward.extract import final_answer
from mmcredit.reward.verifier import AnswerVerifier

RATE = 1e-6  # learning rate of both sides
MISSING = "skipped: trl is not installed; pip install -e '.[bench]' brings it"


class Turns(TrainerCallback):
    """Before every step of the peer one of ours; both are timed."""

    def __init__(self, steps: Steps) -> None:
        self.steps, self.begin = steps, 0.0
        self.ours: list[Seconds] = []
        self.theirs: list[float] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ours.append(self.steps())
        self.begin = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.theirs.append(time.perf_counter() - self.begin)


def reward(completions: list[Any], answer: list[str], **columns: Any) -> list[float | None]:
    """Our rule of correctness on the peer's responses, then rewards that alternate (``HalfRight``)."""
    verifier = AnswerVerifier()
    values: list[float | None] = []
    for completion, gold in zip(completions, answer, strict=True):
        text = completion[0]["content"]
        span = final_answer(text)
        values.append(float(span is not None and verifier.verify(gold, text[slice(*span)]).right))
    return [float(i % 2) for i in range(len(values))]


def dataset(steps: Steps) -> Any:
    """The samples of our steps, as the peer reads them."""
    from datasets import Dataset

    template = steps.run.data.template
    rows = [
        {
            "prompt": [{"role": "user", "content": template.render(sample.question)}],
            "image": sample.images[0],
            "answer": sample.answer,
        }
        for sample in steps.samples
    ]
    return Dataset.from_list(rows)


def trainer(settings: Settings, steps: Steps, kl: float, turns: Turns, folder: str) -> Any:
    """The peer's trainer, one update a rollout."""
    from trl import GRPOConfig, GRPOTrainer

    path, policy = steps.cfg.model.path, steps.module.policy
    forced = {"min_new_tokens": settings.new_tokens, "suppress_tokens": policy.forbidden_ids.tolist()}
    config = GRPOConfig(
        output_dir=folder,
        per_device_train_batch_size=settings.prompts * settings.group,
        gradient_accumulation_steps=1,
        num_generations=settings.group,
        max_completion_length=settings.new_tokens,
        generation_kwargs=forced,
        max_steps=settings.repetitions + 1,
        beta=kl,
        learning_rate=RATE,
        use_cpu=policy.device.type == "cpu",
        bf16=False,
        gradient_checkpointing=False,
        shuffle_dataset=False,
        logging_strategy="no",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    return GRPOTrainer(
        model=load_policy(path).hf,
        reward_funcs=reward,
        args=config,
        train_dataset=dataset(steps),
        processing_class=load_processor(path),
        callbacks=[turns],
    )


def duel(settings: Settings, kl: float, *overrides: str) -> Row:
    """One row: steps of both sides in turn.

    Args:
        overrides: of our configuration: where the steps run. The peer goes where our policy is.

    Raises:
        RuntimeError: the two sides saw different numbers of tokens.
    """
    steps = Steps(settings, *FORCED, *MIXED, f"algorithm.kl_coef={kl}", f"optimizer.lr={RATE}", *overrides)
    turns = Turns(steps)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    with tempfile.TemporaryDirectory() as folder:
        peer = trainer(settings, steps, kl, turns, folder)
        peer.remove_callback(PrinterCallback)
        peer.train()
    expected = tokens_seen(steps.encode(), settings.group, settings.new_tokens) * len(turns.theirs)
    if peer.state.num_input_tokens_seen != expected:
        raise RuntimeError(f"the peer saw {peer.state.num_input_tokens_seen} tokens, this project {expected}")
    ours, theirs = turns.ours[1:], turns.theirs[1:]
    ratios = ratio(theirs, [run["step"] for run in ours], "trl/ours")
    return {"T": settings.new_tokens, "kl": kl, "trl_ms": 1000 * median(theirs), **ratios, **stages(ours)}


def run(settings: Settings) -> list[Table]:
    """The table of this section."""
    size = f"{settings.prompts} prompts, G = {settings.group}, {settings.repetitions} pairs"
    title = f"(a) whole step against TRL's GRPOTrainer: {size}"
    if importlib.util.find_spec("trl") is None:
        return [Table(title, notes=[MISSING])]
    notes = [
        "median, smallest and largest ratio of neighbouring steps; stages are ours",
        "every second response of a group is rewarded on both sides; groups without credit would leave our update",
        "neither computes a separate pass for old log-probs where one update follows a rollout",
    ]
    rows = [duel(replace(settings, new_tokens=tokens), kl) for tokens, kl in settings.duels]
    return [Table(title, rows, notes)]
