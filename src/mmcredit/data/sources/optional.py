"""Packages that only some sources need."""

from __future__ import annotations

import importlib
from types import ModuleType

from mmcredit.types import UserError


def optional(module: str, package: str, source: str) -> ModuleType:
    """A module of a package that belongs to the extra ``corpora``.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise UserError(
            f"{source} needs the package {package}, which is not installed: pip install 'mmcredit[corpora]'"
        ) from None
