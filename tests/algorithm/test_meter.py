"""What is gone through inside a reading, and nothing before it, is recorded."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

from mmcredit.algorithm.meter import Meter
from mmcredit.credit import Record


def test_a_reading_holds_what_was_gone_through_inside():
    scorer = SimpleNamespace(tokens=Counter(computed=5, padded=9), seconds={"vision": 1.0})
    engine = SimpleNamespace(seconds={"decode": 2.0})
    meter, record = Meter(scorer, engine), Record()
    with meter.reading(record):
        scorer.tokens.update(computed=3)
        scorer.seconds |= {"vision": 1.5, "old": 0.25}  # a view that is scored for the first time
        engine.seconds["decode"] = 4.0
    assert record.scalars == {"scoring/tokens_computed": 3, "scoring/tokens_padded": 0}
    assert record.seconds == {"rollout/decode": 2.0, "score/vision": 0.5, "score/old": 0.25}
    assert meter.tokens() == {"computed": 8, "padded": 9}
