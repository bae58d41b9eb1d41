"""The warm start of the tiny model: a Lightning run like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
import lightning
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch.utils.data import DataLoader

from mmcredit.build import build, quiet
from mmcredit.data.templates import Template
from mmcredit.files import write_json
from mmcredit.models.load import export, load_policy
from mmcredit.models.processor import load_processor
from mmcredit.models.supervision import DemonstrationSet, Phase, Supervised
from mmcredit.models.tiny import build_model, build_processor, train_tokenizer
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.observers.summary import scores

Templates = Mapping[str, Template]


@dataclass(frozen=True)
class Scratch:
    """Begin with random weights, and a tokenizer learned from the first phase's texts.

    Args:
        vocab_size: at most; the texts may need fewer.
        corpus_size: questions and responses that are read.
    """

    vocab_size: int
    corpus_size: int

    def __call__(self, phase: Phase, templates: Templates, seed: int) -> tuple[VisionLanguageModel, Any]:
        texts = corpus(phase, templates, self.corpus_size)
        processor = build_processor(train_tokenizer(texts, self.vocab_size))
        return VisionLanguageModel(build_model(processor.tokenizer, seed)), processor


@dataclass(frozen=True)
class Saved:
    """Begin with a saved model and its tokenizer, which knows every byte."""

    path: str

    def __call__(self, phase: Phase, templates: Templates, seed: int) -> tuple[VisionLanguageModel, Any]:
        return load_policy(self.path), load_processor(self.path)


def run(
    out: str,
    seed: int,
    batch: int,
    weight_decay: float,
    begin: Scratch | Saved,
    phases: Sequence[Phase],
    fit: Sequence[str],
) -> dict[str, Any]:
    """First model, phases, measurement; writes model, processor and ``warm_start.json`` to ``out``.

    Each finished phase is kept in a folder beside ``out``; run again with the same folder, the job goes on after it.

    Args:
        fit: overrides of ``mmcredit.fit`` that name the data on which each style of the last phase is measured.
    """
    quiet()
    torch.set_num_threads(1)
    names = dict.fromkeys(style for phase in phases for style in phase.styles)
    templates = {style: instantiate(fit_config(f"template={style}").template) for style in names}
    policy, processor = begin(phases[0], templates, seed)
    start = 0
    for number, phase in enumerate(phases, 1):
        done, size = Path(out).with_name(f"phase_{number}"), phase.steps * batch
        if done.is_dir():
            print(f"phase {number} is done: {done}")
            policy = load_policy(str(done))
        else:
            lightning.seed_everything(seed, verbose=False)
            styles = [(templates[style], shown) for style, shown in phase.demonstrations()]
            shown = DemonstrationSet(styles, processor, start, size)
            teach(phase.teach(policy, phase, weight_decay), shown, batch)
            export(policy, processor, done)
        start += size
    export(policy, processor, Path(out))
    metrics = {style: measure(out, style, fit) for style in phases[-1].styles}
    write_json({"seed": seed, "metrics": metrics}, Path(out) / "warm_start.json")
    return metrics


def teach(module: Supervised, demonstrations: DemonstrationSet, batch: int) -> None:
    """One pass over the demonstrations, in order."""
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, gradient_clip_val=1.0,
    )  # fmt: skip
    trainer.fit(module, DataLoader(demonstrations, batch_size=batch, collate_fn=list))


def corpus(phase: Phase, templates: Templates, size: int) -> list[str]:
    """Texts from which the tokenizer is learned: what is asked and what is said."""
    return [
        text
        for style, shown in phase.demonstrations()
        for i in range(size)
        for text in (templates[style].render(shown.world.question(i).text), shown.response(i))
    ]


def measure(path: str, style: str, fit: Sequence[str]) -> dict[str, float]:
    """Validation of a saved model in one style, by the same code as in a run."""
    plain = ["logger=none", "observers=[]", "callbacks=[]"]
    made = build(fit_config(f"model.path={path}", f"template={style}", *plain, *fit))
    return scores(made.trainer, made.module, made.data)


def fit_config(*overrides: str) -> DictConfig:
    """The configuration of ``mmcredit.fit`` under these overrides."""
    return hydra.compose("fit", overrides=[*overrides, "run_dir=."])
