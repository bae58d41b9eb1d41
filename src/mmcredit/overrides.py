"""What was typed: whether it composes, and if not, what is wrong, in one line."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import mmcredit.configs
from mmcredit.types import UserError

NAMES = re.compile(r"[\w.-]*[A-Za-z_][\w.-]*|\[.*\]")  # of options of a group
ANY_KIND = ("trainer.devices",)  # a number, a list, "0,1" or auto


def jobs(overrides: list[str]) -> list[list[str]]:
    """Jobs of a sweep (``seed=0,1,2 'callbacks=[],[ced]'``) in which every value of every key occurs; not all of their
    combinations. The overrides as they are, where they do not parse; none for sweeps over intervals.

    Raises:
        UserError: a sweep over nothing.
    """
    try:
        with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):  # which options globs match
            parsed = OverridesParser.create(GlobalHydra.instance().config_loader()).parse_overrides(overrides)
    except OverrideParseException:
        return [overrides]
    if any(o.is_sweep_override() and not o.is_discrete_sweep() for o in parsed):
        return []
    swept = [[f"{o.get_key_element()}={v}" for v in o.sweep_string_iterator()] if o.is_sweep_override() else [text]
             for o, text in zip(parsed, overrides, strict=True)]  # fmt: skip
    for text, values in zip(overrides, swept, strict=True):
        if not values:
            raise UserError(f"{text}: nothing to sweep over")
    first = [values[0] for values in swept]
    others = [[*first[:i], value, *first[i + 1 :]] for i, values in enumerate(swept) for value in values[1:]]
    return [first, *others]


def compose_error(config_name: str, overrides: list[str], config_dir: str | None = None) -> str | None:
    """What is wrong with the overrides, in one line; None if they compose.

    Args:
        config_dir: a further folder of configurations (``--config-dir``).
    """
    shown = of_the_task(overrides, config_dir)
    try:
        composed = _compose(config_name, shown)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        return _explain(error, config_name, shown)
    return _added(config_name, shown) or _of_another_kind(composed, config_name, shown)


def _added(config_name: str, overrides: list[str]) -> str | None:
    """A key that ``+`` or ``++`` put where nobody reads it: at the top. Below, it may be an argument of a part."""
    new = [o.lstrip("+").partition("=")[0] for o in overrides if o.startswith("+")]
    tops = [key for key in new if not set("/@.") & set(key)]
    known = sorted(map(str, _compose(config_name, []))) if tops else []
    unknown = [key for key in tops if key not in known]
    if not unknown:
        return None
    return f"{unknown[0]}: no such key; {_close(unknown[0], known)}the configuration has: {', '.join(known)}"


def _of_another_kind(composed: DictConfig, config_name: str, overrides: list[str]) -> str | None:
    """A word where the configuration has a number, or anything but true and false where it has one of these."""
    given = dict[str, Any]()
    for override in overrides:
        key = override.partition("=")[0]
        if not override.startswith(("+", "~")) and key not in ANY_KIND and not set("/@") & set(key):
            given[override] = OmegaConf.to_container(composed, resolve=False)
            for part in key.split("."):
                given[override] = given[override].get(part) if isinstance(given[override], dict) else None
    odd = {o: v for o, v in given.items() if isinstance(v, str | bool | int | float) and "${" not in str(v)}
    before = _compose(config_name, [o for o in overrides if o not in odd or "." not in o.partition("=")[0]])
    for override, value in odd.items():
        key = override.partition("=")[0]
        was = OmegaConf.select(before, key, throw_on_resolution_failure=False) if "." in key else None
        if isinstance(was, bool) and not isinstance(value, bool):
            return f"{override} must be true or false"
        if isinstance(was, int | float) and not isinstance(was, bool) and isinstance(value, str | bool):
            return f"{override} must be a number, such as {was}"
    return None


def of_the_task(overrides: list[str], config_dir: str | None) -> list[str]:
    shown = [o for o in overrides if not o.lstrip("+~").startswith("hydra.") or "hydra.searchpath" in o]
    if config_dir is None:
        return shown
    paths = [f"file://{Path(config_dir).resolve()}", *search_paths(shown)]
    listed = ",".join(json.dumps(str(path), ensure_ascii=False) for path in paths)
    return [*(o for o in shown if not _searches(o)), f"hydra.searchpath=[{listed}]"]


def search_paths(overrides: list[str]) -> list[str]:
    """Further places of configurations, ``file://`` and a folder each, of the last ``hydra.searchpath=``."""
    given: Any = [o.value() for o in OverridesParser.create().parse_overrides([*filter(_searches, overrides)])]
    return list(map(str, given[-1])) if given and isinstance(given[-1], list) else []


def _searches(override: str) -> bool:
    return override.lstrip("+").startswith("hydra.searchpath=")


def one_line(error: Exception) -> str:
    lines = [line.strip() for line in f"{error}\n{error.__cause__ or ''}".splitlines() if line.strip()]
    return " ".join(dict.fromkeys(lines))


def _compose(config_name: str, overrides: list[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = hydra.compose(config_name, overrides=overrides)
    GlobalHydra.instance().clear()
    return config


def _explain(error: Exception, config_name: str, overrides: list[str]) -> str:
    if isinstance(error, OverrideParseException):
        return f"cannot read {error.override!r}: {error.message.splitlines()[0]}"
    if isinstance(error, MissingConfigException) and "/" in (missing := error.missing_cfg_file or ""):
        group = missing.rsplit("/", 1)[0]
        others = [path.removeprefix("file://") for path in search_paths(overrides)]
        folders = [str(Path(mmcredit.configs.__file__).parent), *others]
        options = sorted({path.stem for folder in folders for path in (Path(folder) / group).glob("*.yaml")})
        return f"there is no {missing}; {group} has: {', '.join(options)}"
    if "Config group override must be" in str(error):
        groups, given = Path(mmcredit.configs.__file__).parent, [o.partition("=") for o in overrides]
        wrong = [f"{g}={v}" for g, _, v in given if (groups / g).is_dir() and (v == "null" or not NAMES.fullmatch(v))]
        return f"{' or '.join(wrong)}: a group takes a name or a list of names ([] for none); --help lists them"
    for override in overrides:
        key = override.lstrip("+~").split("=")[0]
        if override[0] == "+" and any(words in str(error) for words in (f"already at '{key}'", f"values for {key}.")):
            return f"{override}: {key} is there already: leave the + out"
        if set("~/@") & set(override.split("=")[0]) or f"'{key}'" not in str(error):  # groups: Hydra's own words
            continue
        if known := _known_keys(config_name, key, overrides):
            node, names = known
            unknown = key.removeprefix(f"{node}.").split(".")[0]
            return f"{key}: no such key; {_close(unknown, names)}{node} has: {', '.join(names)}"
    return one_line(error)


def _close(unknown: str, names: list[str]) -> str:
    close = difflib.get_close_matches(unknown, names, 1)
    return f"did you mean {close[0]}? " if close else ""


def _known_keys(config_name: str, key: str, overrides: list[str]) -> tuple[str, list[str]] | None:
    """The deepest existing node above a key, and what it holds."""
    others = [o for o in overrides if "." not in o.split("=")[0] and o.lstrip("+~").split("=")[0] != key]
    try:
        node: Any = _compose(config_name, others)
    except (HydraException, OmegaConfBaseException, ValueError):
        node = _compose(config_name, [])
    path = key.split(".")[:-1]
    for i, part in enumerate(path):
        if not isinstance(node, DictConfig) or part not in node:
            return ".".join(path[:i]) or "the configuration", sorted(map(str, node))
        node = OmegaConf.select(node, part)
    name = ".".join(path) or "the configuration"
    return (name, sorted(map(str, node))) if isinstance(node, DictConfig) else None
