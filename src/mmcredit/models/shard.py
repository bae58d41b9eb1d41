"""Models shared out over ranks (FSDP2): each holds a part of every layer, and gathers a layer while it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from mmcredit.models.fill import Load, fill
from mmcredit.models.lockstep import Lockstep
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import UserError


@dataclass(frozen=True)
class Sharding:
    """How models are shared out.

    Args:
        compute: type of the arithmetic and of gathered weights, e.g. ``bfloat16``; None leaves that of the weights.
        reduce: type in which gradients are averaged; None leaves that of the arithmetic.
        offload_frozen: models that are not trained wait in CPU memory, and are copied layer by layer when used.
        sync_each: average gradients after every micro-batch instead of once (``Lockstep``).

    Raises:
        UserError: no such type.
    """

    compute: str | None = None
    reduce: str | None = "float32"
    offload_frozen: bool = False
    sync_each: bool = False

    def __post_init__(self) -> None:
        for name in ("compute", "reduce"):
            given = getattr(self, name)
            if given is not None and not isinstance(getattr(torch, given, None), torch.dtype):
                raise UserError(f"trainer.strategy.{name}={given!r} does not exist; use bfloat16, float32 or null")

    def __call__(self, models: Iterable[VisionLanguageModel], mesh: DeviceMesh, load: Load | None = None) -> None:
        """Share out all models. One that stands on another's weights is given by its owner's.

        Args:
            load: where the models are copies of one and have no weights (``load_policy(empty=True)``): loads it, on
                the first rank. None where every rank has the whole models.
        """
        owners = list(dict.fromkeys(model.owner for model in models))
        pace = Lockstep(owners, self.sync_each)
        for model in owners:
            self._shard(model, mesh)
            model.pace = pace
        if load is not None:
            fill(owners, mesh, load)

    def _shard(self, model: VisionLanguageModel, mesh: DeviceMesh) -> None:
        compute, reduce = (None if name is None else getattr(torch, name) for name in (self.compute, self.reduce))
        trained = any(p.requires_grad for p in model.parameters())
        policy = MixedPrecisionPolicy(compute, reduce, cast_forward_inputs=False)
        offload = OffloadPolicy()
        if self.offload_frozen and not trained:
            offload = CPUOffloadPolicy(pin_memory=mesh.device_type != "cpu")
        for layer in [*model.family.vision_blocks(model.hf), *model.family.decoder_layers(model.hf)]:
            fully_shard(layer, mesh=mesh, mp_policy=policy, offload_policy=offload)
        root = fully_shard(model, mesh=mesh, mp_policy=policy, offload_policy=offload)
        if any(p.is_meta for p in model.parameters()):
            model.to_empty(device="cpu" if isinstance(offload, CPUOffloadPolicy) else mesh.device_type)
        root.set_requires_gradient_sync(self.sync_each)
        root.set_reduce_scatter_unused_params(True)
        model.work_dtype, model.work_device = compute, torch.device(mesh.device_type)
        model.feature_cache.watch(model.family.vision_tower(model.hf))


def whole(tensor: Tensor) -> Tensor:
    """A tensor that may be spread over ranks, gathered; all ranks must call it."""
    if not isinstance(tensor, DTensor):
        return tensor
    here: Any = tensor.to(tensor.device_mesh.device_type)  # a part may wait in CPU memory
    return here.full_tensor()


def spread_like(value: Tensor, like: Tensor) -> Tensor:
    """This rank's part of a whole tensor, held as ``like`` is; every rank has the whole."""
    if not isinstance(like, DTensor):
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def whole_weights(model: nn.Module, tied_once: bool = True) -> Iterator[tuple[str, Tensor]]:
    """Name and whole tensor of every weight and saved buffer, one at a time. All ranks must go through it.

    Args:
        tied_once: tied weights come under their first name only.
    """
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
    known = model.state_dict(keep_vars=True)
    seen: set[int] = set()
    for name, value in known.items():
        if not tied_once or id(value) not in seen:
            seen.add(id(value))
            yield name, whole(value.detach())
