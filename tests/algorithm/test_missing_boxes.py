"""Evidence boxes in the training data: counted at the start."""

from __future__ import annotations

import logging

import pytest
from common import WORLD
from PIL import Image

from mmcredit.algorithm.missing_boxes import report_missing_boxes
from mmcredit.callbacks.ced import CED
from mmcredit.callbacks.vlm_r1 import VLMR1
from mmcredit.callbacks.vppo import VPPO
from mmcredit.data.sampling import Pool
from mmcredit.types import Box, Sample

PICTURE = Image.new("RGB", (32, 32))
BOX = Box(4, 4, 8, 8)
BOXED = Sample("boxed", (PICTURE,), "q", "2", "counting", bbox=BOX)
BARE = Sample("bare", (PICTURE,), "q", "2", "counting")
OTHER = Sample("other", (PICTURE,), "q", "a", "other")
TEXT = Sample("text", (), "q", "2", "counting")


def pool(*samples: Sample) -> Pool:
    return Pool(list(samples))


def test_the_share_without_a_box_is_said_once_a_method(caplog):
    """Unrouted families do not count for CED, text never does."""
    report_missing_boxes([CED(), VLMR1(), VPPO()], pool(BOXED, BOXED, BOXED, BARE, OTHER, TEXT))
    ced, vlm_r1 = (record.getMessage() for record in caplog.records)
    assert ced.startswith("CED: 1 of 4 training samples (25.0 %) name no evidence box: the middle of the picture")
    assert vlm_r1.startswith("VLMR1: 2 of 5 training samples (40.0 %) name no evidence box: a right answer")


def test_data_without_any_box_are_said_to_be_so(caplog):
    report_missing_boxes([CED()], pool(BARE, BARE, OTHER, TEXT))
    (record,) = caplog.records
    assert record.getMessage().startswith("CED: 2 of 2 training samples (100.0 %) name no evidence box")


@pytest.mark.parametrize(
    "samples", [[BOXED, OTHER, TEXT], [OTHER], [TEXT], WORLD], ids=["all", "unrouted", "text", "untold"]
)
def test_nothing_is_said_where_nothing_lacks_or_nothing_is_known(samples, caplog):
    with caplog.at_level(logging.WARNING):
        report_missing_boxes([CED()], Pool(samples))
    assert not caplog.records


def test_no_sample_is_read_where_no_method_uses_boxes():
    class Closed(list[Sample]):
        def __getitem__(self, index):
            raise AssertionError("a sample was read")

    report_missing_boxes([VPPO()], Pool(Closed([BARE])))
