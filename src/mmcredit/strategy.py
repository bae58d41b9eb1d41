"""The Lightning strategy that shares models out over ranks (FSDP2, on CPU or GPU)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map

from mmcredit.models.shard import Sharding, spread_like, whole
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import UserError


class Sharded(ModelParallelStrategy):
    """Shares out policy, reference and teacher alike over all ranks.

    A checkpoint in one file is that of every other strategy, and can be resumed under any of them; a folder holds a
    part from every rank. Both can be resumed on another number of ranks.

    Args:
        checkpoint_folder: save a folder; else one file, assembled on the first rank.
        sharding: as in ``Sharding``.
    """

    def __init__(self, checkpoint_folder: bool = False, **sharding: Any) -> None:
        super().__init__(save_distributed_checkpoint=checkpoint_folder)
        self.sharding = Sharding(**sharding)
        self.shared = False
        self.load: Callable[[], VisionLanguageModel] | None = None

    def setup_environment(self) -> None:
        if self.precision_plugin.precision != "32-true":
            raise UserError("trainer=fsdp takes trainer.strategy.compute=bfloat16 in place of trainer.precision")
        self._data_parallel_size, self._tensor_parallel_size = self.num_nodes * self.num_processes, 1
        super().setup_environment()

    def model_to_device(self) -> None:
        """Nothing is left to do: sharing out puts every part where it belongs."""

    def empty(self, load: Callable[..., VisionLanguageModel]) -> VisionLanguageModel:
        """A policy without weights, to be copied and shared out: then the first rank loads it, and no other ever holds
        it whole.

        Args:
            load: ``load_policy``, but for ``empty``.
        """
        self.load = load
        return load(empty=True)

    def share_out(self, models: Iterable[VisionLanguageModel]) -> None:
        """Share out the models, once."""
        if not self.shared:
            self.sharding(models, self.device_mesh["data_parallel"], self.load)
            self.shared = True

    def lightning_module_state_dict(self) -> dict[str, Any]:
        if self._save_distributed_checkpoint:
            return super().lightning_module_state_dict()
        assert self.lightning_module is not None
        return self._on_first_rank(self.lightning_module.state_dict())

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        if self._save_distributed_checkpoint:
            return super().optimizer_state(optimizer)
        plain = optimizer._optimizer if isinstance(optimizer, LightningOptimizer) else optimizer
        return self._on_first_rank(plain.state_dict())

    def _on_first_rank(self, state: dict[str, Any]) -> dict[str, Any]:
        """Whole tensors in CPU memory; other ranks have numbers in their place."""
        first = self.is_global_zero

        def gather(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            assembled = whole(value.detach())
            return assembled.cpu() if first else 0

        return tree_map(gather, state)

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = None) -> dict[str, Any]:
        if Path(checkpoint_path).is_dir():
            return super().load_checkpoint(checkpoint_path, weights_only)
        saved = torch.load(checkpoint_path, map_location="cpu", mmap=True, weights_only=True)
        assert self.lightning_module is not None
        places = self.lightning_module.state_dict()
        parts = {name: spread_like(value, places[name]) for name, value in saved.pop("state_dict").items()}
        self.lightning_module.load_state_dict(parts)
        for optimizer, state in zip(self.optimizers, saved.get("optimizer_states", ()), strict=False):
            weights = [p for group in optimizer.param_groups for p in group["params"]]
            for index, kept in state["state"].items():
                for key, value in kept.items():
                    if value.shape == weights[index].shape:
                        kept[key] = spread_like(value, weights[index])
            optimizer.load_state_dict(state)
        return saved
