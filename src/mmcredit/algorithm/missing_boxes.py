"""Whether the training data name the evidence boxes that methods use."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lightning.pytorch.utilities import rank_zero_only

from mmcredit.credit import CreditCallback
from mmcredit.data.sampling import Pool
from mmcredit.data.source import info_of

log = logging.getLogger(__name__)


def report_missing_boxes(chain: Sequence[CreditCallback], pool: Pool) -> None:
    """Says of each method that uses evidence boxes which share of the samples that may be drawn names none.

    What counts are samples with a picture, of the families that the method grades by boxes. Sources that do not tell
    (``Info.boxed``) are not judged; the methods' metrics count in any case.
    """
    for method in chain:
        if method.without_box is None:
            continue
        infos = (info_of(pool.source, i) for i in pool.indices)
        told = [info.boxed for info in infos if info.boxed is not None and method.uses_box(info.family)]
        if missing := told.count(False):
            _warn(type(method).__name__, missing, len(told), method.without_box)


@rank_zero_only
def _warn(method: str, missing: int, total: int, instead: str) -> None:
    log.warning(
        "%s: %s of %s training samples (%.1f %%) name no evidence box: %s; add boxes to them (docs/data.md) or leave "
        "them out",
        method, f"{missing:,}", f"{total:,}", 100 * missing / total, instead,
    )  # fmt: skip
