"""Sampled ids to padded tensors, text, and the characters that each token covers."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from mmcredit.types import Responses, Span


@cache
def _byte_of() -> dict[str, int]:
    """The byte behind each character of a byte-level BPE token: printable Latin-1 stands for itself, the rest is
    shifted past 255."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    shifted = [b for b in range(256) if b not in printable]
    table = {chr(b): b for b in printable}
    return table | {chr(256 + i): b for i, b in enumerate(shifted)}


def decode_with_spans(tokenizer: Any, ids: Sequence[int], end_ids: Sequence[int]) -> tuple[str, tuple[Span, ...]]:
    """Text of a response without its end token, and each token's half-open character interval.

    A character that is cut across tokens belongs to all of them; the end token gets an empty interval.

    Args:
        tokenizer: a byte-level BPE tokenizer (Qwen, InternVL and most others).
        ids: the sampled ids.
        end_ids: ids that end a response.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    byte_of, added = _byte_of(), tokenizer.added_tokens_decoder
    text, spans = "", []
    for i, token_id in enumerate(ids):
        if i == len(ids) - 1 and token_id in end_ids:
            text += decoder.decode(b"", final=True)
            spans.append((len(text), len(text)))
            break
        token = tokenizer.convert_ids_to_tokens(token_id)
        raw = token.encode() if token_id in added else bytes(byte_of[c] for c in token)
        start = len(text)
        text += decoder.decode(raw)
        spans.append((start, len(text) + bool(decoder.getstate()[0])))
    text += decoder.decode(b"", final=True)
    return text, tuple(spans)


def tokens_meeting(spans: Sequence[Span], wanted: Span) -> list[bool]:
    """Which tokens' half-open intervals share a character with the wanted one; empty intervals share none."""
    return [max(start, wanted[0]) < min(end, wanted[1]) for start, end in spans]


def collate(tokenizer: Any, sampled: Sequence[Sequence[Tensor]], end_ids: Sequence[int]) -> Responses:
    """Pad the group's responses to one tensor; ids stay as they were sampled.

    Args:
        sampled: [B][G] int64 [T_i].
    """
    decoded = [[decode_with_spans(tokenizer, ids.tolist(), end_ids) for ids in group] for group in sampled]
    return Responses(
        ids_BGT=padded(sampled),
        mask_BGT=padded([[torch.ones_like(ids, dtype=torch.bool) for ids in group] for group in sampled]),
        texts=tuple(tuple(text for text, _ in group) for group in decoded),
        spans=tuple(tuple(spans for _, spans in group) for group in decoded),
    )


def padded(values: Sequence[Sequence[Tensor]]) -> Tensor:
    """[B, G, T] of [B][G] values [T_i], padded with 0 (False) to the longest."""
    flat = [value for group in values for value in group]
    return pad_sequence(flat, batch_first=True).view(len(values), len(values[0]), -1)
