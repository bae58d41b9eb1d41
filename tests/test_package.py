"""Everything that belongs to the package is in the wheel."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
MAPPED = {name: ROOT / folder for name, folder in SETTINGS["package-dir"].items()}


def folder_of(package: str) -> Path:
    if package in MAPPED:
        return MAPPED[package]
    parent, _, name = package.rpartition(".")
    return folder_of(parent) / name


def test_every_folder_with_python_files_is_a_listed_package():
    listed = {folder_of(package) for package in SETTINGS["packages"]}
    found = {p.parent for root in ("src/mmcredit", "callbacks", "configs") for p in (ROOT / root).rglob("*.py")}
    assert listed == found


@pytest.mark.parametrize("package", SETTINGS["package-data"])
def test_package_data_patterns_find_files(package):
    for pattern in SETTINGS["package-data"][package]:
        assert list(folder_of(package).glob(pattern)), pattern


def test_the_shipped_models_stay_small():
    sizes = [p.stat().st_size for p in (ROOT / "src/mmcredit/models").glob("tiny_qwen3vl*/*")]
    assert sum(sizes) <= 20 * 2**20
