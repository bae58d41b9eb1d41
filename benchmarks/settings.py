"""How large the measurements are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Sizes of every section; the defaults finish within about six minutes on one idle core.

    Args:
        repetitions: measured repetitions of a step, after one that is left out.
        prompts: prompts a step.
        group: G, responses a prompt.
        new_tokens: T, tokens of a response where growth and FLOP are measured.
        duels: new tokens and weight of the KL term for which the peer is met; 12 is the mean length of a response in
            the embedded world.
        ratios: prompt:response lengths for packed against padded.
        groups: G for packed against padded.
        padded_tokens: tokens of the padded batch in every cell of packed against padded.
        cell_repetitions: measured repetitions of such a cell, after one that is left out.
        vocabulary, scored, hidden: size of the head whose memory is measured.
        chunks: tokens a chunk of the head, beside the shipped number.
        grow_groups, grow_tokens, grow_pictures, grow_regions: the points of G, T, picture side in pixels and K.
        matmul: side of the square matrices whose product gives the machine's rate.
    """

    repetitions: int = 5
    prompts: int = 16
    group: int = 8
    new_tokens: int = 32
    duels: tuple[tuple[int, float], ...] = ((12, 0.0), (32, 0.0), (32, 0.01))
    ratios: tuple[tuple[int, int], ...] = ((8, 1), (4, 1), (2, 1), (1, 1), (1, 2), (1, 4), (1, 8))
    groups: tuple[int, ...] = (4, 8, 16, 32)
    padded_tokens: int = 1536
    cell_repetitions: int = 3
    vocabulary: int = 151_936
    scored: int = 4096
    hidden: int = 128
    chunks: tuple[int, ...] = (256,)
    grow_groups: tuple[int, ...] = (4, 8, 16)
    grow_tokens: tuple[int, ...] = (16, 32, 64)
    grow_pictures: tuple[int, ...] = (64, 128, 256)
    grow_regions: tuple[int, ...] = (1, 3, 6)
    matmul: int = 1024


SMALLEST = Settings(
    repetitions=1,
    prompts=1,
    group=2,
    new_tokens=3,
    duels=((3, 0.0),),
    ratios=((2, 1),),
    groups=(2,),
    padded_tokens=24,
    cell_repetitions=1,
    vocabulary=512,
    scored=16,
    hidden=8,
    chunks=(8,),
    grow_groups=(2,),
    grow_tokens=(2,),
    grow_pictures=(64,),
    grow_regions=(1,),
    matmul=64,
)
