"""From a composed configuration to the objects of a run."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import lightning
import transformers
from hydra.utils import instantiate
from omegaconf import DictConfig

from mmcredit.algorithm.missing_boxes import report_missing_boxes
from mmcredit.algorithm.sampling_edits import check_sampling
from mmcredit.credit import CreditCallback
from mmcredit.data.datamodule import DataModule
from mmcredit.data.encode import Encoder
from mmcredit.data.prompt_gate import MAX_PROMPT_TOKENS, Admitted, PromptGate
from mmcredit.models.load import frozen_copy, own_device, reference, set_up
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.module import CreditModule
from mmcredit.observers.environment import Environment
from mmcredit.observers.start import StartChecks
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import Weights
from mmcredit.strategy import Sharded
from mmcredit.teacher import Teacher, refresh_interval
from mmcredit.types import UserError


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
    data = data_module(cfg, sets, template)
    chain: list[CreditCallback] = chosen(cfg.get("callbacks"))  # before the model: what it refuses costs no waiting
    report_missing_boxes(chain, data.pool)
    data.connect(processor)
    data.validate_in_fit = cfg.val_every is not None
    strategy = cfg.trainer.strategy if isinstance(cfg.trainer.strategy, str) else instantiate(cfg.trainer.strategy)
    policy = set_up(new_policy(cfg.model.policy, strategy), processor)
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
    parts = {"strategy": strategy, "callbacks": [*chain, *observers], "logger": logger}
    return Run(module, data, instantiate(cfg.trainer, **parts), processor, sets)


def data_module(cfg: DictConfig, sets: dict[str, Admitted], template: Any) -> DataModule:
    """Batches of the sets that passed the gate."""
    return DataModule(
        train=sets["train"],
        val={name: sets[name] for name in cfg.data.val},
        template=template,
        batch_size=cfg.data.batch_size,
        val_batch_size=cfg.data.val_batch_size,
        seed=cfg.seed,
        sampler=instantiate(cfg.data.sampler),
        difficulty=instantiate(cfg.data.get("difficulty")),
    )


def new_policy(policy: DictConfig, strategy: Any) -> VisionLanguageModel:
    """The policy, of which reference and teacher are copies; without weights where the strategy gives every rank its
    parts of them."""
    load = partial(instantiate, policy)
    return strategy.empty(load) if isinstance(strategy, Sharded) else load()


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


def policy_alone(model: DictConfig, processor: Any, **options: Any) -> VisionLanguageModel:
    """A policy that no trainer moves, on this process's GPU if there is one; ``options`` of its loader."""
    return set_up(instantiate(model.policy, **options), processor, own_device())
