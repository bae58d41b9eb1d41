"""The rules of the house that can be read off the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import mmcredit
import mmcredit.callbacks

SOURCE, METHODS = Path(mmcredit.__file__).parent, Path(mmcredit.callbacks.__file__).parent
ROOMS = ["types", "functional", "files", "checkpoints", "data", "models", "strategy", "rollout", "reward", "scoring"]
ROOMS += [
    "services",
    "credit",
    "algorithm",
    "module",
    "teacher",
    "reporting",
    "observers",
    "evaluation",
    "integrations",
]
ROOMS += ["integrations", "callbacks", "diagnostics"]
ENTRIES = {
    "fit",
    "maps",
    "plan",
    "planning",
    "provenance",
    "report",
    "prepare",
    "evaluate",
    "compared",
    "diagnose",
    "replay",
    "serve",
    "launch",
    "folders",
    "processes",
    "checks",
    "missing",
    "usage",
    "overrides",
    "build",
    "warm_start",
    "preparation",
    "__init__",
    "configs",
}
METHOD_MAY_USE = {"credit", "functional", "types", "scoring", "services"}


def imported_rooms(path: Path) -> set[str]:
    """Second name of every ``mmcredit.x`` import, those for type checking included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names |= {name.split(".")[1] for name in modules if name.startswith("mmcredit.")}
    return names


def files() -> list[Path]:
    return [p for p in SOURCE.rglob("*.py") if p.name != "__init__.py"]


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_to_its_left(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room in ENTRIES:
        return
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    assert imported_rooms(path) <= allowed, f"{room} may import {sorted(allowed)}"


@pytest.mark.parametrize("path", list(METHODS.glob("[!_]*.py")), ids=lambda p: p.stem)
def test_a_method_is_small_has_a_card_and_imports_no_trainer(path):
    assert imported_rooms(path) <= METHOD_MAY_USE
    docs = {n.lineno: n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Expr)}
    documentation = {
        i for n in docs.values() if isinstance(n.value, ast.Constant) for i in range(n.lineno, n.end_lineno + 1)
    }
    code = [
        line
        for i, line in enumerate(path.read_text().splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and i not in documentation
    ]
    assert len(code) <= 120
    card = path.with_suffix(".md").read_text()
    for heading in ("Idea", "Equations", "Views and cost", "Parameters", "Metrics", "Interacts with", "Citation"):
        assert f"## {heading}" in card


def test_nothing_evaluates_strings_or_trusts_remote_code():
    for path in [*files(), *METHODS.glob("*.py")]:
        tree = ast.parse(path.read_text())
        calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        assert not calls & {"eval", "exec", "compile"}, path
        assert "trust_remote_code=True" not in path.read_text(), path
