"""FlexAttention (https://arxiv.org/abs/2412.05496) for rows that share prefixes: the mask is computed where it is
needed, from one number a token, and blocks of tokens that do not see each other are skipped.

transformers refuses its own ``flex_attention`` for Qwen's vision-language models. Under a name of one's own an
attention may be registered for any model; a mask that is ready reaches it untouched. Dense masks, as decoding with a
cache has them, go on to SDPA, and so does the vision tower.
"""

from __future__ import annotations

import functools
import logging
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, Cache
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from mmcredit.models.layout import dense_mask

log = logging.getLogger(__name__)
NAME = "packed_flex"
DEVICES = {"cuda"}  # PyTorch has no backward pass of it on CPU
BLOCK = 128  # tokens of a side of a block
TOLERANCE = {torch.float32: 5e-3}  # relative; TF32 may be on. A wrong mask is off by more than a tenth
HALF_TOLERANCE = 3e-2
FALLS_BACK = "falling back to SDPA with dense masks, which need more memory"


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | BlockMask | None,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[Tensor, None]:
    """[R, L, heads, D] as transformers wants it.

    Args:
        query: [R, heads, L, D].
        key, value: [R, key heads, K, D]; the number of heads is a multiple of theirs.
        attention_mask: a block mask, or what SDPA is to be given.
    """
    if not isinstance(attention_mask, BlockMask):
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **rest)
    kind = query.device.type
    if torch.is_autocast_enabled(kind):  # as it does for SDPA
        query, key, value = (part.to(torch.get_autocast_dtype(kind)) for part in (query, key, value))
    return block_attention(query, key, value, attention_mask, scaling).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)  # of masks that are not ready


def block_attention(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask, scaling: float | None) -> Tensor:
    """[R, heads, L, D]; compiled on GPUs, where the plain function would hold all scores."""
    run = _compiled() if query.is_cuda else flex_attention
    options = {"FORCE_USE_FLEX_ATTENTION": True}  # one kernel for rows of all lengths
    found: Any = run(query, key, value, block_mask=mask, scale=scaling, enable_gqa=True, kernel_options=options)
    return found


@functools.cache
def _compiled() -> Any:
    compiler: Any = torch.compile
    # lengths differ from batch to batch; past the limit fullgraph raises, where else it would run uncompiled
    return compiler(flex_attention, dynamic=True, fullgraph=True, recompile_limit=64, isolate_recompiles=True)


def mask(hf: Any, ends_RL: Tensor, dtype: torch.dtype, cache: Cache | None) -> Tensor | BlockMask:
    """What the language model is to be given: a block mask, or a dense one.

    Args:
        ends_RL: as in ``Layout``.
        dtype: of the weights.
        cache: a pass that fills it has a dense mask.
    """
    blocks = cache is None and takes(hf, ends_RL.device, dtype)
    return block_mask(ends_RL) if blocks else dense_mask(ends_RL, dtype)


def block_mask(ends_RL: Tensor, block: int = BLOCK) -> BlockMask:
    """The mask of a layout, without any [L, L] tensor.

    A block of queries sees some of an earlier block of keys if a branch of the keys reaches into it, and all of it if
    every branch goes on beyond it. Of a token's own block it sees a part, of later ones nothing.

    Args:
        ends_RL: as in ``Layout``.
        block: tokens of a side of a block.
    """
    length = ends_RL.shape[1]
    count = -(-length // block)
    ends = pad(ends_RL, (0, count * block - length))  # kernels may look beyond the last token
    whole = ends.view(len(ends), count, block)
    first = torch.arange(0, count * block, block, device=ends_RL.device)[:, None]  # [queries, 1] token of a block
    earlier = torch.ones(count, count, dtype=torch.bool, device=ends_RL.device).tril(-1)
    some = earlier & (whole.amax(-1)[:, None] > first)
    every = earlier & (whole.amin(-1)[:, None] >= first + block)
    own = torch.eye(count, dtype=torch.bool, device=ends_RL.device)
    partial, full = _ordered(some & ~every | own), _ordered(every)

    def sees(r: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (q < ends[r, k])

    return BlockMask.from_kv_blocks(*partial, *full, block, sees, (length, length))


def _ordered(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """[R, 1, queries] number of chosen blocks and [R, 1, queries, keys] their indices, chosen ones first."""
    indices = chosen.int().argsort(stable=True, dim=-1, descending=True).int()
    return chosen.sum(-1, dtype=torch.int32)[:, None], indices[:, None].contiguous()


def choose(hf: Any, name: str) -> None:
    """Set the attention of the language model: ``packed_flex`` or ``sdpa``."""
    hf.set_attn_implementation({"text_config": name})


def chosen(hf: Any, device: torch.device) -> bool:
    """Whether the language model's attention should be this one on such a device."""
    text = hf.config.get_text_config()
    return text._attn_implementation == NAME and device.type in DEVICES and not getattr(text, "attention_dropout", 0)


def takes(hf: Any, device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the language model is given block masks; checked at first use."""
    if not chosen(hf, device):
        return False
    if torch.is_autocast_enabled(device.type):
        dtype = torch.get_autocast_dtype(device.type)
    text = hf.config.get_text_config()
    heads = text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // heads
    return agrees(device, dtype, heads, text.num_key_value_heads, width)


@functools.cache
def agrees(device: torch.device, dtype: torch.dtype, heads: int, key_heads: int, width: int) -> bool:
    """Whether FlexAttention says here what SDPA says, gradients included; a warning if it does not."""
    tolerance = TOLERANCE.get(dtype, HALF_TOLERANCE)
    try:
        difference = disagreement(device, dtype, heads, key_heads, width)
        found = f"differs from SDPA by {difference:.1e} (relative; allowed {tolerance:.1e})"
    except Exception as error:  # whatever a compiler may raise
        difference = math.inf
        found = f"does not run: {type(error).__name__}: {error}".partition("\n")[0]
    if difference <= tolerance:
        log.info("FlexAttention in %s on %s %s", dtype, device, found)
        return True
    log.warning("FlexAttention in %s on %s %s: %s", dtype, device, found, FALLS_BACK)
    return False


def disagreement(device: torch.device, dtype: torch.dtype, heads: int, key_heads: int, width: int) -> float:
    """Largest relative difference between FlexAttention and SDPA, of outputs and gradients, for two rows of random
    numbers: two responses behind a prompt, and padding before one response."""
    shapes = [(2, count, 300, width) for count in (heads, key_heads, key_heads, heads)]
    draw = torch.Generator().manual_seed(0)
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
        ends_RL = torch.full((2, 300), 300, dtype=torch.int32)
        ends_RL[0, 150:230], ends_RL[1, :140] = 230, torch.arange(1, 141)
        ends_RL = ends_RL.to(device)
        *inputs, slope = (torch.randn(shape, generator=draw).to(device, dtype) for shape in shapes)
        found = []
        for blocks in (True, False):
            query, key, value = (part.detach().requires_grad_() for part in inputs)
            if blocks:
                out = block_attention(query, key, value, block_mask(ends_RL), None)
            else:
                wide_key, wide_value = (part.repeat_interleave(heads // key_heads, 1) for part in (key, value))
                out = scaled_dot_product_attention(query, wide_key, wide_value, dense_mask(ends_RL, dtype))
            found.append((out, *torch.autograd.grad(out, (query, key, value), slope)))
    gaps = [(a - b).detach().float().norm() / b.detach().float().norm() for a, b in zip(*found, strict=True)]
    return float(torch.stack(gaps).max())
