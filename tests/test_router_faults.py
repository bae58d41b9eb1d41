"""Training goes on through every fault of a claim router, and each is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from services.stub_server import said, serving, spans
from test_fit import SMALL, config

from mmcredit.build import build

HANG = 3.0  # seconds, beyond the deadline of a request
SPANS = spans("a red circle", "red", "red", "nowhere in the text")
FAULTS: list[Any] = [
    said(SPANS),
    said(f"Here they are:\n```json\n{SPANS}\n```"),
    said(SPANS[: len(SPANS) // 2]),
    said(spans("not a substring of it")),
    said(json.dumps({"spans": [{"text": 3}]})),
    (500, "{}"),
    (429, "{}"),
    HANG,
    None,
]


def in_turn(turn: int, body: dict[str, Any]) -> Any:
    return FAULTS[turn % len(FAULTS)]


def options(url: str) -> list[str]:
    chat = {"model": "stub", "base_url": url, "request_seconds": 0.5, "step_seconds": 20, "retries": 1}
    chat |= {"backoff_seconds": 0.01, "cache": "null", "breaker_failures": 1000}
    return [*SMALL, "template=think", "callbacks=[pacg]", "router=openai"] + [
        f"router.chat.{key}={value}" for key, value in chat.items()
    ]


def rows(folder: Path) -> list[dict[str, str]]:
    lines = (folder / "csv" / "metrics.csv").read_text().splitlines()
    names = lines[0].split(",")
    found = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    return [row for row in found if row.get("train/loss")]


def test_training_runs_through_all_faults_and_the_counters_add_up(tmp_path):
    with serving(in_turn) as stub:
        run = build(config(tmp_path, *options(stub.url), "steps=6", "data.batch_size=8", "algorithm.mini_batch=8"))
        run.trainer.fit(run.module, datamodule=run.data)
    counters = run.module.chain[0].router.service.counters
    failed = sum(count for kind, count in counters.items() if kind.startswith("failed/"))
    assert counters["requests"] == counters["answered"] + counters["cached"] + failed > len(FAULTS)
    assert counters["attempts"] == len(stub.bodies)
    for kind in ("timeout", "connection", "rate_limit", "server_error", "invalid_json", "invalid_schema"):
        assert counters[f"attempt/{kind}"], kind
    assert counters["dropped"] and counters["answered"] and failed
    logged = rows(tmp_path)
    assert len(logged) == 6 and any(float(row["pacg/router_failure_rate"] or 0) > 0 for row in logged)


@pytest.mark.parametrize("answer", [None, (500, "{}")], ids=["down", "broken"])
def test_a_router_that_never_answers_leaves_the_parent(tmp_path, answer, caplog):
    """Unit gates: the losses are those without a method, and a warning names the router."""
    with serving([answer]) as stub:
        with_router = build(config(tmp_path / "a", *options(stub.url), "steps=2"))
        with_router.trainer.fit(with_router.module, datamodule=with_router.data)
    alone = build(config(tmp_path / "b", *SMALL, "template=think", "callbacks=[]", "steps=2"))
    alone.trainer.fit(alone.module, datamodule=alone.data)
    found, expected = ([float(row["train/loss"]) for row in rows(tmp_path / n)] for n in "ab")
    assert found == pytest.approx(expected, abs=1e-6)
    assert "router=openai" in caplog.text


def test_the_key_appears_nowhere(tmp_path, monkeypatch, caplog, capsys):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with serving(in_turn) as stub:
        run = build(config(tmp_path, *options(stub.url), "steps=2", "router.chat.cache=${run_dir}/cache"))
        run.trainer.fit(run.module, datamodule=run.data)
        run.trainer.save_checkpoint(tmp_path / "last.ckpt")
        assert any("sk-very-secret" in (key or "") for key in stub.keys), "the server got it"
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"sk-very-secret" not in written
    assert "sk-very-secret" not in caplog.text + "".join(capsys.readouterr())
