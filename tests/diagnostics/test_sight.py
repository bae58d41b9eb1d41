"""The sight check: a blind model answers alike whatever is shown."""

from __future__ import annotations

import numpy as np
import pytest

from mmcredit.diagnostics.sight import Sight, shuffle
from mmcredit.types import UserError


def test_a_model_that_sees_and_one_that_does_not(think_bank, make_setting, shipped, blind):
    accuracy, tokens = Sight()(make_setting(think_bank, group=3, base=shipped, blind=blind)).sections
    sees, does_not = accuracy.rows
    assert sees["gap blank"].low > 0.2 and sees["gap other"].low > 0 and sees["original"].value > 0.5
    for name in ("blank", "shuffled", "other"):
        assert does_not[f"gap {name}"].value == 0 == does_not[f"gap {name}"].high
    assert tokens.rows[0]["mean"] > 0.1 and tokens.rows[0]["share above 0.1"] > 0.1
    assert tokens.rows[1]["mean"] == 0 == tokens.rows[1]["P99"]
    assert tokens.rows[0]["tokens"] == sum(len(r.ids) for group in think_bank.responses for r in group)


def test_other_pictures_are_what_they_say(think_bank, make_setting, shipped):
    shown = Sight(pieces=8).pictures(make_setting(think_bank, base=shipped))
    own = {sample.images[0].tobytes() for sample in think_bank.samples}
    for sample in think_bank.samples:
        pictures = {name: show(sample).images[0] for name, show in shown.items()}
        assert pictures["original"].tobytes() == sample.images[0].tobytes()
        assert pictures["other"].tobytes() in own - {sample.images[0].tobytes()}
        assert pictures["blank"].getextrema() == ((0, 0),) * 3
        assert sorted(pictures["shuffled"].tobytes()) == sorted(sample.images[0].tobytes())
        assert pictures["shuffled"].tobytes() != sample.images[0].tobytes()


def test_shuffled_pieces_stay_whole():
    from PIL import Image

    picture = Image.fromarray(np.arange(81, dtype=np.uint8).reshape(9, 9))
    made = np.asarray(shuffle(picture, 2, "seed"))
    pieces = {made[y : y + 4, x : x + 4].tobytes() for y in (0, 4) for x in (0, 4)}
    whole = np.asarray(picture)
    assert pieces == {whole[y : y + 4, x : x + 4].tobytes() for y in (0, 4) for x in (0, 4)}
    assert (made[8] == whole[8]).all() and (made[:, 8] == whole[:, 8]).all()


def test_mistakes(think_bank, make_setting, shipped):
    from dataclasses import replace

    with pytest.raises(UserError, match=r"diagnostic.pieces=1 must be at least 2"):
        Sight(pieces=1)
    lone = replace(think_bank, samples=think_bank.samples[:1], responses=think_bank.responses[:1])
    with pytest.raises(UserError, match="at least two questions"):
        Sight()(make_setting(lone, base=shipped))
