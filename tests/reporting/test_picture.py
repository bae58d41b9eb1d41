"""The picture for TensorBoard."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from map_case import HOSTILE, column, panel

from mmcredit.reporting.colours import colour
from mmcredit.reporting.picture import BOXES, MARGIN, WIDTH, panel_picture

CHAINS = ("no method", HOSTILE[0])


def colours(picture) -> set[tuple[int, ...]]:
    return set(map(tuple, np.asarray(picture).reshape(-1, 3)))


def test_boxes_and_signed_credit_are_drawn():
    picture = panel_picture(CHAINS, panel(("red", " circle", "x")))
    assert picture.mode == "RGB" and picture.width == WIDTH
    assert {*BOXES.values(), colour(10), colour(-10), colour(5), colour(-5)} <= colours(picture)


def test_hostile_text_long_text_and_no_picture():
    plain = replace(panel(), pictures=(), boxes=())
    assert panel_picture(CHAINS, plain).width == WIDTH
    long = panel(tuple(f" word{i}" for i in range(4000)), chains=1)
    assert panel_picture(CHAINS[:1], long).height < 1200


def test_the_same_panel_gives_the_same_picture():
    assert panel_picture(CHAINS, panel()).tobytes() == panel_picture(CHAINS, panel()).tobytes()


def test_tokens_do_not_leave_the_picture():
    words = tuple(f" word{i}" for i in range(60))
    picture = np.asarray(panel_picture(CHAINS, panel(words)))
    assert (picture[:, -MARGIN + 2 :] == 255).all()
    assert len(column(words).tokens) == 60
