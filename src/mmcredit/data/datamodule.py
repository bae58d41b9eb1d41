"""The DataModule: encoded prompts in an order that depends on the seed alone and continues after a resume."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

import lightning
from torch.utils.data import DataLoader

from mmcredit.data.encode import Encoder
from mmcredit.data.sampling import Order, PassRate, Pool, Shuffle, StepBatches
from mmcredit.data.source import Source
from mmcredit.data.templates import Template
from mmcredit.functional import rank, world
from mmcredit.types import Prompts, UserError

log = logging.getLogger(__name__)


class DataModule(lightning.LightningDataModule):
    """Serves training prompts without end, and the validation sets once each.

    Args:
        train: source of training samples.
        val: name -> source; the names prefix the logged metrics.
        template: instruction around the question.
        batch_size: prompts a rollout step, over all ranks.
        val_batch_size: prompts a validation batch of a rank.
        seed: order of the data.
        sampler: law of that order; ``Shuffle`` by default.
        difficulty: which training samples may be drawn; None for all.

    Raises:
        UserError: no training sample, or fewer than a batch (or a balanced epoch).
    """

    def __init__(
        self,
        train: Source,
        val: Mapping[str, Source],
        template: Template,
        batch_size: int,
        val_batch_size: int,
        seed: int,
        sampler: Order | None = None,
        difficulty: PassRate | None = None,
    ) -> None:
        super().__init__()
        if batch_size < 1:
            raise UserError(f"data.batch_size={batch_size} must be at least 1")
        if len(train) == 0:
            raise UserError(
                "the training data is empty: no sample was read; check data.path, and data.val_share if it is set"
            )
        self.pool, self.sampler = Pool(train, difficulty), sampler or Shuffle()
        if not len(self.pool):
            raise UserError(f"none of the {len(train)} training samples is admitted by data.difficulty ({difficulty})")
        if len(self.pool) < batch_size:
            raise UserError(
                f"data.batch_size={batch_size} exceeds the {len(self.pool)} training samples"
                f"{' that data.difficulty admits' if difficulty else ''}; "
                f"use data.batch_size={len(self.pool)} or less, and algorithm.mini_batch and micro_batch that divide it"
            )
        self.sampler.check(self.pool, batch_size)
        self.train, self.template, self.seed = train, template, seed
        self.val = {name: source for name, source in val.items() if len(source)}
        self.batch_size, self.val_batch_size = batch_size, val_batch_size
        self.encoder: Encoder
        self.validate_in_fit = False

    def connect(self, processor: Any) -> None:
        """Give the model's processor."""
        self.encoder = Encoder(processor, self.template)

    def first_prompts(self, count: int) -> Prompts:
        """The first training prompts of the run, for checks at the start."""
        indices = self.sampler.batch(0, self.pool, self.batch_size, self.seed)[:count]
        return self.encoder([self.train[i] for i in indices])

    def train_dataloader(self) -> DataLoader[Prompts]:
        module = self.trainer.lightning_module if self.trainer else None
        start = getattr(module, "drawn_batches", 0)
        batches = StepBatches(self.sampler, self.pool, self.batch_size, self.seed, start, rank(), world())
        return DataLoader(cast(Any, self.train), batch_sampler=batches, collate_fn=self.encoder)

    def state_dict(self) -> dict[str, Any]:
        """What the order of the data depends on; with the module's ``drawn_batches`` it is the place in it."""
        law = type(self.sampler).__name__
        return {"sampler": law, "samples": len(self.pool), "batch_size": self.batch_size, "seed": self.seed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        now = self.state_dict()
        if changed := [f"{key} {state_dict.get(key)} -> {value}" for key, value in now.items()
                       if state_dict.get(key) != value]:  # fmt: skip
            log.warning("the data are not those of the checkpoint (%s): samples may come again", ", ".join(changed))

    def val_dataloader(self) -> list[DataLoader[Prompts]]:
        if self.trainer and self.trainer.state.fn == "fit" and not self.validate_in_fit:
            return []  # start and end are validated by themselves
        return [self._once(source) for source in self.val.values()]

    def _once(self, source: Source) -> DataLoader[Prompts]:
        """Every sample on one rank, in as many batches on all ranks (the last may be empty): loops stay in step."""
        at_once = self.val_batch_size * world()
        starts = range(0, len(source), at_once)
        batches = [list(range(len(source)))[start : start + at_once][rank() :: world()] for start in starts]
        return DataLoader(cast(Any, source), batch_sampler=batches, collate_fn=self.encoder)
