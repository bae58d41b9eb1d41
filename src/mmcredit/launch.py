"""Entry points over Hydra: resolvers, and one clear line for a user's mistake before anything is loaded."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, InstantiationException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import mmcredit.configs
from mmcredit.processes import QUIET, rank, run_name
from mmcredit.types import UserError

CONFIGS = "pkg://mmcredit.configs"
NO_VALIDATION = 10**9  # steps


def register_resolvers() -> None:
    """``${package:x}``: a path inside the installed package; ``${val_interval:n}``: n, or practically never;
    ``${run_name:}``: the run's, the same in all of its processes; ``${options:${x}}``: what part x is given beside its
    path."""
    OmegaConf.register_new_resolver("package", lambda name: str(Path(__file__).parent / name), replace=True)
    OmegaConf.register_new_resolver("val_interval", lambda n: n or NO_VALIDATION, replace=True)
    OmegaConf.register_new_resolver("run_name", run_name, replace=True)
    OmegaConf.register_new_resolver("options", _options, replace=True)


def _options(part: DictConfig) -> dict[str, Any]:
    given: Any = OmegaConf.to_container(part, resolve=True)
    return {key: value for key, value in given.items() if key not in ("_target_", "path")}


def launch(task: Callable[[DictConfig], Any], config_name: str) -> None:
    """Run a task under Hydra. A user's mistake ends with one line and exit status 2."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the tokenizers warn at every fork otherwise
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    register_resolvers()
    args = get_args_parser().parse_args()
    asks = (args.help, args.hydra_help, args.cfg, args.info, args.shell_completion)
    for job in [] if any(asks) else jobs(args.overrides) if args.multirun else [args.overrides]:
        if problem := compose_error(config_name, job, args.config_dir):
            sys.exit(_report(problem))

    if rank():
        sys.argv += QUIET

    def guarded(cfg: DictConfig) -> Any:
        try:
            return task(cfg)
        except Exception as error:
            if mistake := user_error(error):
                sys.exit(_report(str(mistake)))
            if isinstance(error, InstantiationException) and "MMCREDIT_TRACEBACK" not in os.environ:
                sys.exit(_report(f"{_one_line(error)} (MMCREDIT_TRACEBACK=1 shows where)"))
            raise

    guarded.__module__ = "mmcredit"
    hydra.main(config_path=CONFIGS, config_name=config_name, version_base="1.3")(guarded)()


def _report(problem: str) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return 2


def user_error(error: BaseException | None) -> UserError | None:
    """The user's mistake behind an exception (Hydra wraps what a constructor raises)."""
    while error is not None and not isinstance(error, UserError):
        error = error.__cause__
    return error


def jobs(overrides: list[str]) -> list[list[str]]:
    """Jobs of a sweep (``seed=0,1,2 'callbacks=[],[ced]'``) in which every value of every key occurs; not all of their
    combinations. The overrides as they are, where they do not parse; none for sweeps over ranges."""
    try:
        parsed = OverridesParser.create().parse_overrides(overrides)
    except OverrideParseException:
        return [overrides]
    if any(o.is_sweep_override() and not o.is_discrete_sweep() for o in parsed):
        return []
    swept = [[f"{o.get_key_element()}={v}" for v in o.sweep_string_iterator()] if o.is_sweep_override() else [text]
             for o, text in zip(parsed, overrides, strict=True)]  # fmt: skip
    first = [values[0] for values in swept]
    others = [[*first[:i], value, *first[i + 1 :]] for i, values in enumerate(swept) for value in values[1:]]
    return [first, *others]


def compose_error(config_name: str, overrides: list[str], config_dir: str | None = None) -> str | None:
    """What is wrong with the overrides, in one line; None if they compose.

    Args:
        config_dir: a further folder of configurations (``--config-dir``).
    """
    shown = [o for o in overrides if not o.lstrip("+~").startswith("hydra.") or "hydra.searchpath" in o]
    if config_dir:
        shown.append(f"hydra.searchpath=[file://{Path(config_dir).resolve()}]")
    try:
        _compose(config_name, shown)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        return _explain(error, config_name, shown)
    return None


def _one_line(error: Exception) -> str:
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
        options = sorted(p.stem for p in (Path(mmcredit.configs.__file__).parent / group).glob("*.yaml"))
        return f"there is no {missing}; {group} has: {', '.join(options)}"
    for override in overrides:
        key = override.lstrip("+~").split("=")[0]
        if f"'{key}'" in str(error) and (known := _known_keys(config_name, key, overrides)):
            node, names = known
            unknown = key.removeprefix(f"{node}.").split(".")[0]
            close = difflib.get_close_matches(unknown, names, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            return f"{key}: no such key; {hint}{node} has: {', '.join(names)}"
    return _one_line(error)


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
