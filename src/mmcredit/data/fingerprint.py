"""What a data source serves, as a short hash: runs on other data cannot be mistaken for runs on the same."""

from __future__ import annotations

import hashlib

from mmcredit.data.datamodule import Source
from mmcredit.data.prompt_gate import Admitted
from mmcredit.types import Sample

PROBED = 64  # samples that are opened, pictures included


def fingerprint(source: Source) -> str:
    """16 hex digits of the number of samples, ``PROBED`` of them spread evenly over the source, and, where the source
    knows outlines, id, question, answer and picture sizes of every one.

    A change in nothing but the pixels or boxes of a sample that is not probed is missed.
    """
    digest, size = hashlib.blake2b(digest_size=8), len(source)
    digest.update(str(size).encode())
    for index in sorted({i * size // PROBED for i in range(PROBED)}) if size else ():
        digest.update(_content(source[index]))
    rows, places = (source.source, source.places) if isinstance(source, Admitted) else (source, range(size))
    if outline := getattr(rows, "outline", None):
        for place in places:
            digest.update(repr(outline(place)).encode())
    return digest.hexdigest()


def _content(sample: Sample) -> bytes:
    parts: list[object] = [sample.id, sample.question, sample.answer, sample.family, sample.boxes, sample.proposal_bbox]
    parts += [sample.target_bbox, sample.argument_bbox, sample.bbox, sample.objects, sorted(sample.meta.items())]
    digest = hashlib.blake2b("\x1f".join(map(repr, parts)).encode())
    for picture in sample.images:
        digest.update(repr((picture.mode, picture.size)).encode())
        digest.update(picture.tobytes())
    return digest.digest()
