"""The heartbeat names rank and stage while a stage lasts, and says nothing otherwise."""

from __future__ import annotations

import logging
import re
import time

import pytest

from mmcredit.credit import Record
from mmcredit.observers.heartbeat import Heartbeat
from mmcredit.types import UserError


class Stepping:
    """What the heartbeat reads of a module."""

    rollout_step = 6

    def __init__(self) -> None:
        self.record = Record()


@pytest.fixture
def watched(monkeypatch):
    """A module with a record, under a heartbeat of 0.2 s."""
    module = Stepping()
    monkeypatch.setattr("mmcredit.observers.heartbeat.CreditModule", Stepping)
    heartbeat = Heartbeat(limit=0.2)
    heartbeat.on_train_start(None, module)
    yield module
    heartbeat.on_train_end(None, module)
    assert not heartbeat.thread.is_alive()


def test_a_long_stage_is_named_again_when_its_time_has_doubled(watched, caplog):
    with caplog.at_level(logging.WARNING), watched.record.stage("reward"):
        time.sleep(0.8)
    told = [record.getMessage() for record in caplog.records]
    assert 2 <= len(told) <= 3
    assert re.fullmatch(
        r"rank 0 of 1: stage 'reward' of step 7 has lasted 0 s, not waiting .*, at \S+:\d+ \(.*\)", told[0]
    )


def test_short_stages_and_the_time_between_them_are_not(watched, caplog):
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            with watched.record.stage("rollout"):
                time.sleep(0.08)
        time.sleep(0.4)
    assert not caplog.records


def test_a_limit_above_zero():
    with pytest.raises(UserError, match=r"observers.heartbeat.limit=0 must be above 0"):
        Heartbeat(limit=0)
