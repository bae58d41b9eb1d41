"""From a composed configuration to the objects of a run."""

from __future__ import annotations

import logging
import os
import warnings
from dataclasses import dataclass
from typing import Any

import lightning
import torch
import transformers
from hydra.utils import instantiate
from omegaconf import DictConfig

from mmcredit.algorithm.boxes import check_boxes
from mmcredit.algorithm.sampling_edits import check_sampling
from mmcredit.credit import CreditCallback
from mmcredit.data.datamodule import DataModule
from mmcredit.data.encode import Encoder
from mmcredit.data.prompt_gate import MAX_PROMPT_TOKENS, Admitted, PromptGate
from mmcredit.models.load import frozen_copy, reference
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.module import CreditModule
from mmcredit.observers.environment import Environment
from mmcredit.observers.start import StartChecks
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import Weights
from mmcredit.teacher import Teacher, refresh_interval
from mmcredit.types import UserError

SMALL_MODEL = 50_000_000  # parameters; below, a second CPU thread costs more than it brings


@dataclass(frozen=True)
class Run:
    """The parts that ``fit`` joins."""

    module: CreditModule
    data: DataModule
    trainer: lightning.Trainer
    processor: Any
    sets: dict[str, Admitted]  # what passed the gate, train and validation


def build(cfg: DictConfig) -> Run:
    """Instantiate everything that the configuration names.

    Raises:
        UserError: a part refused its arguments (Hydra wraps it).
    """
    quiet()
    lightning.seed_everything(cfg.seed, verbose=False)
    processor, template = instantiate(cfg.model.processor), instantiate(cfg.template)
    sets = admitted(cfg.data, Encoder(processor, template))
    data = DataModule(
        train=sets["train"],
        val={name: sets[name] for name in cfg.data.val},
        template=template,
        batch_size=cfg.data.batch_size,
        val_batch_size=cfg.data.val_batch_size,
        seed=cfg.seed,
        sampler=instantiate(cfg.data.sampler),
        difficulty=instantiate(cfg.data.get("difficulty")),
    )
    chain: list[CreditCallback] = chosen(cfg.get("callbacks"))  # before the model: what it refuses costs no waiting
    check_boxes(chain, data.pool)
    data.connect(processor)
    data.validate_in_fit = cfg.val_every is not None
    policy: VisionLanguageModel = instantiate(cfg.model.policy)
    policy.known_ids = min(len(processor.tokenizer), policy.vocabulary)
    choose_threads(policy)
    algorithm, engine = instantiate(cfg.algorithm), instantiate(cfg.rollout.engine)
    observers = [Environment(), StartChecks(data), *chosen(cfg.get("observers"))]
    check_sampling(chain, engine.law.group, engine.edits)
    models = {Weights.OLD: policy}
    if algorithm.kl_coef or any(method.needs_reference for method in chain):
        models[Weights.REFERENCE] = reference(policy)
    if every := refresh_interval(chain):
        models[Weights.TEACHER] = frozen_copy(policy)
        observers.append(Teacher(models[Weights.TEACHER], every))
    module = CreditModule(
        policy=policy,
        scorer=Scorer(models, data.encoder, engine.law.temperature, **cfg.scoring, seed=cfg.seed),
        engine=engine,
        val_engine=engine.single(),
        grade=instantiate(cfg.reward),
        algorithm=algorithm,
        chain=chain,
        optimizer=instantiate(cfg.optimizer),
        tokenizer=processor.tokenizer,
        contradicts=instantiate(cfg.claims),
        val_names=list(data.val),
        steps=cfg.steps,
        max_grad_norm=cfg.max_grad_norm,
    )
    logger = instantiate(cfg.logger) if cfg.get("logger") else False
    trainer: lightning.Trainer = instantiate(cfg.trainer, callbacks=[*chain, *observers], logger=logger)
    return Run(module, data, trainer, processor, sets)


def admitted(data: DictConfig, encoder: Encoder) -> dict[str, Admitted]:
    """The sets of a run, train first, behind the prompt gate.

    Raises:
        UserError: a sample that cannot be used under ``on_bad_row=raise``; no training sample is left.
    """
    gate = PromptGate(encoder, data.get("max_prompt_tokens", MAX_PROMPT_TOKENS), data.get("on_bad_row", "raise"))
    sets = {name: gate(name, instantiate(source)) for name, source in {"train": data.train, **data.val}.items()}
    report = sets["train"].report
    if not len(sets["train"]) and report.dropped:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in report.dropped.most_common())
        raise UserError(f"the training data is empty: of {report.read:,} rows all were dropped ({reasons})")
    return sets


def chosen(parts: DictConfig | None) -> list[Any]:
    """The parts of a list group, in order. What an experiment sets for a part that is not chosen has no ``_target_``
    and is left out, so that methods can be swapped on the command line."""
    return [instantiate(part) for part in (parts or {}).values() if "_target_" in part]


def quiet() -> None:
    """Keep libraries' advice out of the progress lines."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")


def choose_threads(policy: VisionLanguageModel) -> None:
    """One thread for small models on CPU, unless OMP_NUM_THREADS says otherwise."""
    small = sum(p.numel() for p in policy.parameters()) < SMALL_MODEL
    if small and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def policy_alone(model: DictConfig, processor: Any, **options: Any) -> VisionLanguageModel:
    """A policy that no trainer moves, on this process's GPU if there is one; ``options`` of its loader."""
    policy: VisionLanguageModel = instantiate(model.policy, **options)
    policy.known_ids = min(len(processor.tokenizer), policy.vocabulary)
    choose_threads(policy)
    return policy.to(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu")
