"""Every key that the code records under a written name stands in docs/metrics.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mmcredit
import mmcredit.callbacks

ROOT = Path(__file__).parents[1]
RECORDED = re.compile(r'record\.(?:scalar|histogram|responses|tokens|extend)\(\s*"([^"]+)"')
SOURCES = [p for module in (mmcredit, mmcredit.callbacks) for p in Path(module.__file__ or "").parent.rglob("*.py")]


def documented(text: str) -> set[str]:
    """Keys in backticks; ``_p50`` after ``a/b_p10`` is not told apart."""
    return set(re.findall(r"`([a-z_0-9]+/[^`]+)`", text))


@pytest.mark.parametrize("path", [p for p in SOURCES if RECORDED.search(p.read_text())], ids=lambda p: p.stem)
def test_recorded_keys_are_documented(path: Path) -> None:
    known = documented((ROOT / "docs" / "metrics.md").read_text("utf-8"))
    recorded = set(RECORDED.findall(path.read_text("utf-8")))
    assert not {key for key in recorded if "/" in key} - known
