"""Supervised warm start of the tiny model on demonstrations of the embedded world."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import lightning
import torch
from torch.utils.data import Dataset

from mmcredit.data.encode import Encoder
from mmcredit.data.templates import Template
from mmcredit.data.world.source import Demonstrations
from mmcredit.models.layout import Row
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import Prompts

Pair = tuple[Prompts, torch.Tensor]


class DemonstrationSet(Dataset[Pair]):
    """Encoded demonstrations, the styles in turn: item i is question i in style i modulo their number."""

    def __init__(self, styles: Sequence[tuple[Template, Demonstrations]], processor: Any, size: int) -> None:
        self.styles = [(Encoder(processor, template), demonstrations) for template, demonstrations in styles]
        self.tokenizer, self.size = processor.tokenizer, size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Pair:
        encoder, demonstrations = self.styles[index // 4 % len(self.styles)]
        text = demonstrations.response(index)
        ids = self.tokenizer(text + self.tokenizer.eos_token, return_tensors="pt").input_ids[0]
        return encoder([demonstrations.sample(index)]), ids


class WarmStart(lightning.LightningModule):
    """Next-token loss on the responses; AdamW, linear warm-up, cosine decay to 5 %."""

    def __init__(self, policy: VisionLanguageModel, lr: float, warmup: int, steps: int, weight_decay: float) -> None:
        super().__init__()
        self.policy = policy
        self.lr, self.warmup, self.steps, self.weight_decay = lr, warmup, steps, weight_decay

    def transfer_batch_to_device(self, batch: list[Pair], device: torch.device, dataloader_idx: int) -> list[Pair]:
        return batch  # the policy moves what it needs

    def training_step(self, batch: list[Pair], index: int) -> torch.Tensor:
        features = self.policy.features([p.pixels[0] for p, _ in batch], [p.grids[0] for p, _ in batch])
        rows = [
            Row(prompts.ids[0], self.policy.positions(prompts)[0], feature, (response,))
            for (prompts, response), feature in zip(batch, features, strict=True)
        ]
        loss = -self.policy.scores(rows).logp_S.mean()
        self.log("warm_start/loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(
            self.policy.parameters(), lr=self.lr, betas=(0.9, 0.95), weight_decay=self.weight_decay
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self._scale)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _scale(self, step: int) -> float:
        cosine = 0.5 * (1 + math.cos(math.pi * min(step / self.steps, 1)))
        return min(1.0, (step + 1) / self.warmup) * max(cosine, 0.05)
