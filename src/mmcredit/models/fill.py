"""Weights of models that were shared out without any: the first rank loads them, and gives every rank its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor

from mmcredit.functional import gather, rank
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import UserError

Load = Callable[[], VisionLanguageModel]


@torch.no_grad()
def fill(models: Sequence[VisionLanguageModel], mesh: DeviceMesh, load: Load) -> None:
    """Give shared out models their weights, tensor by tensor; all ranks must call it.

    The first rank alone holds a whole model, in CPU memory, and every rank the largest tensor for a moment.

    Args:
        models: copies of one, e.g. policy, reference and teacher, with memory for their parts and anything in it.
        load: called by the first rank.

    Raises:
        UserError: the first rank cannot load the model; on all ranks.
    """
    source = _loaded(load)
    sent: dict[str, Tensor] = {} if source is None else dict(source.hf.named_parameters())
    for name, first in models[0].hf.named_parameters():
        value = _sent(sent.get(name), first, mesh)
        part = distribute_tensor(value, mesh, first.placements, src_data_rank=0).to_local()
        for model in models:
            place: Any = model.hf.get_parameter(name)
            place.to_local().copy_(part)
    sent = {} if source is None else dict(source.hf.named_buffers())
    for name, first in models[0].hf.named_buffers():
        value = _sent(sent.get(name), first, mesh)
        distributed.broadcast(value, group=mesh.get_group(), group_src=0)
        for model in models:
            owner, _, last = name.rpartition(".")
            setattr(model.hf.get_submodule(owner), last, value.clone())  # where it computes, offloaded or not


def _sent(value: Tensor | None, like: Tensor | DTensor, mesh: DeviceMesh) -> Tensor:
    """The whole tensor where it is sent from, and room for it elsewhere."""
    if value is None:
        return torch.empty(like.shape, dtype=like.dtype, device=mesh.device_type)
    return value.to(mesh.device_type, like.dtype)


def _loaded(load: Load) -> VisionLanguageModel | None:
    """What the first rank loads; None on others. They learn of a failure: else they would wait for its tensors."""
    found, failed = None, None
    if rank() == 0:
        try:
            found = load()
        except Exception as error:
            failed = error
    reason = gather(failed and f"{type(failed).__name__}: {' '.join(str(failed).split())}")[0]
    if reason:
        raise UserError(f"the first rank cannot load the model: {reason}") from failed
    return found
