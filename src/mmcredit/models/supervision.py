"""Supervised training of the tiny model on demonstrations: what a warm start is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lightning
import torch
from torch.utils.data import Dataset

from mmcredit.data.encode import Encoder
from mmcredit.data.templates import Template
from mmcredit.data.world.demonstrations import Demonstrations, Questions, Writer
from mmcredit.data.world.scene import CELL, GRID
from mmcredit.models.layout import Row
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import Prompts, SceneObject

Pair = tuple[Prompts, torch.Tensor]
Kind = tuple[str, str]  # colour and shape of an object


@dataclass(frozen=True)
class Phase:
    """One stretch of supervised training.

    Args:
        teach: ``Seeing`` of some kinds, or ``Answering``.
        steps, lr, warmup: AdamW with linear warm-up and cosine decay to 5 %.
        questions: what is asked; taken in order, and from the beginning again where they end.
        styles: template -> writer of its responses; the samples take them in turn.
        faults: planted shares, see ``Demonstrations``.
    """

    teach: Callable[..., Supervised]
    steps: int
    lr: float
    warmup: int
    questions: Questions
    styles: Mapping[str, Writer]
    faults: Mapping[str, float]

    def demonstrations(self) -> list[tuple[str, Demonstrations]]:
        """Style and demonstrations over the questions."""
        return [(style, Demonstrations(self.questions, write, **self.faults)) for style, write in self.styles.items()]


class DemonstrationSet(Dataset[Pair]):
    """Encoded demonstrations: questions four by four (one of each family) in one style, then the next style."""

    def __init__(
        self, styles: Sequence[tuple[Template, Demonstrations]], processor: Any, start: int, size: int
    ) -> None:
        self.styles = [(Encoder(processor, template), demonstrations) for template, demonstrations in styles]
        self.tokenizer, self.start, self.size = processor.tokenizer, start, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Pair:
        if index >= self.size:
            raise IndexError(index)
        encoder, demonstrations = self.styles[index // 4 % len(self.styles)]
        place = (self.start + index) % len(demonstrations.world)
        text = demonstrations.response(place)
        ids = self.tokenizer(text + self.tokenizer.eos_token, return_tensors="pt").input_ids[0]
        return encoder([demonstrations.world[place]]), ids


class Supervised(lightning.LightningModule):
    """AdamW with linear warm-up and cosine decay to 5 %, a loss line now and then."""

    def __init__(self, policy: VisionLanguageModel, phase: Phase, weight_decay: float) -> None:
        super().__init__()
        self.policy, self.phase, self.weight_decay = policy, phase, weight_decay

    def loss(self, batch: list[Pair]) -> torch.Tensor:
        """What is minimised."""
        raise NotImplementedError

    def transfer_batch_to_device(self, batch: list[Pair], device: torch.device, dataloader_idx: int) -> list[Pair]:
        return batch  # the policy moves what it needs

    def training_step(self, batch: list[Pair], index: int) -> torch.Tensor:
        loss = self.loss(batch)
        if index % 50 == 0:
            print(f"{type(self).__name__} step {index}/{self.phase.steps}  loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(
            self.parameters(), lr=self.phase.lr, betas=(0.9, 0.95), weight_decay=self.weight_decay
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._scale)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _scale(self, step: int) -> float:
        cosine = 0.5 * (1 + math.cos(math.pi * min(step / self.phase.steps, 1)))
        return min(1.0, (step + 1) / self.phase.warmup) * max(cosine, 0.05)


class Seeing(Supervised):
    """Linear probes on every merged token: which object, which row, which column. Teaches the vision tower in minutes
    what the responses alone teach in hours; the probes are thrown away.

    Args:
        kinds: of objects that are told apart.
    """

    def __init__(self, policy: VisionLanguageModel, phase: Phase, weight_decay: float, kinds: Sequence[Kind]) -> None:
        super().__init__(policy, phase, weight_decay)
        self.kinds = list(kinds)
        vision = policy.hf.config.vision_config
        self.probes = torch.nn.ModuleList(
            torch.nn.Linear(vision.out_hidden_size, len(self.kinds) + 1 + 2 * GRID)
            for _ in range(1 + len(vision.deepstack_visual_indexes))
        )

    def loss(self, batch: list[Pair]) -> torch.Tensor:
        seen = self.policy.features([p.pixels[0] for p, _ in batch], [p.grids[0] for p, _ in batch])
        place = torch.arange(GRID * GRID).repeat(len(batch))
        labels = (
            torch.cat([cell_labels(p.samples[0].objects, self.kinds) for p, _ in batch]),
            place // GRID,
            place % GRID,
        )
        losses = []
        for layer, probe in enumerate(self.probes):
            tokens = torch.cat([(f.merged_ND, *f.deepstack)[layer] for f in seen if f is not None])
            parts = probe(tokens).split([len(self.kinds) + 1, GRID, GRID], -1)
            what, row, column = map(torch.nn.functional.cross_entropy, parts, labels)
            losses.append(what + 0.2 * (row + column))
        return torch.stack(losses).sum()


def cell_labels(objects: Sequence[SceneObject], kinds: Sequence[Kind]) -> torch.Tensor:
    """[merged tokens] 0 for a grid cell without the centre of an object, else 1 + the kind of that object."""
    labels = torch.zeros(GRID * GRID, dtype=torch.long)
    for o in objects:
        x, y = (int(centre // CELL) for centre in o.box.centre)
        labels[y * GRID + x] = 1 + kinds.index((o.color, o.shape))
    return labels


class Answering(Supervised):
    """Next-token loss on the responses."""

    def loss(self, batch: list[Pair]) -> torch.Tensor:
        features = self.policy.features([p.pixels[0] for p, _ in batch], [p.grids[0] for p, _ in batch])
        rows = [
            Row(prompts.ids[0], self.policy.positions(prompts)[0], feature, (response,))
            for (prompts, response), feature in zip(batch, features, strict=True)
        ]
        return -self.policy.scores(rows).logp_S.mean()
