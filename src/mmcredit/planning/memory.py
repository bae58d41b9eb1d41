"""Memory of one GPU, part by part. Estimates: what is allocated, without fragmentation and the driver's own.

Activations of a decoder layer are counted as in Korthikanti et al., "Reducing Activation Recomputation in Large
Transformer Models" (arXiv:2205.05198), section 4, without the attention matrix, which fused kernels never hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmcredit.models.vlm import HEAD_ELEMENTS
from mmcredit.planning.architecture import Architecture

GIB = 2**30
KEPT = 18  # numbers of the width D that a layer keeps for its backward pass, beside the feed-forward block's
KEPT_WIDE = 4  # numbers of the feed-forward width
HEAD_COPIES = 3  # logits, their softmax, its gradient


@dataclass(frozen=True)
class Setup:
    """How the models lie in memory."""

    gpus: int  # that share each model; 1: none is shared
    weight_bytes: int
    compute_bytes: int
    trained: int  # parameters
    gradients_shared: bool  # averaged after every micro-batch; else each GPU holds all of them until the last
    copies: int  # frozen models beside the policy: reference, teacher
    offloaded: bool  # they wait in CPU memory
    checkpointing: bool
    row_tokens: int  # of the longest micro-batch of one GPU
    decoded: int  # responses decoded side by side on one GPU
    context: int  # tokens of prompt and response
    engine_share: float  # of the GPU, taken by vLLM; 0: it sleeps, or the Hugging Face model samples
    cache_in_trainer: bool  # the Hugging Face engine keeps keys and values itself


def parts(model: Architecture, setup: Setup, gpu_gib: float) -> dict[str, float]:
    """GiB of each part on one GPU."""
    whole, trained = model.total * setup.weight_bytes, setup.trained * setup.weight_bytes
    largest = max(model.layer, model.other)  # embeddings, head and norms are gathered together
    gathered = largest * setup.compute_bytes if setup.gpus > 1 or setup.compute_bytes < setup.weight_bytes else 0
    kept = KEPT * model.hidden + KEPT_WIDE * model.intermediate
    layers = model.layers * model.hidden + kept if setup.checkpointing else model.layers * kept
    head = HEAD_COPIES * max(HEAD_ELEMENTS, model.vocabulary) * 4
    cache = setup.decoded * setup.context * model.cache_per_token * setup.compute_bytes
    found = {
        "weights": whole / setup.gpus,
        "gradients": trained / (setup.gpus if setup.gradients_shared else 1),
        "optimizer": 2 * trained / setup.gpus,
        "frozen copies": 0 if setup.offloaded else setup.copies * whole / setup.gpus,
        "gathered layer": gathered,
        "activations": setup.row_tokens * layers * setup.compute_bytes + head,
        "keys and values": cache if setup.cache_in_trainer else 0,
        "vLLM": setup.engine_share * gpu_gib * GIB,
    }
    return {name: size / GIB for name, size in found.items()}


def peak(found: dict[str, float]) -> float:
    """GiB at the fullest moment: sampling and training take turns."""
    turns = ("activations", "keys and values")
    return sum(size for name, size in found.items() if name not in turns) + max(found[name] for name in turns)
