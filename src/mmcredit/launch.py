"""Entry points over Hydra: resolvers, and one clear line for a user's mistake before anything is loaded."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, InstantiationException
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from mmcredit.folders import create, own_folder, take_away
from mmcredit.overrides import compose_error, jobs, of_the_task, one_line
from mmcredit.processes import QUIET, leave, rank, run_name
from mmcredit.types import UserError
from mmcredit.usage import usage

CONFIGS = "pkg://mmcredit.configs"
NO_VALIDATION = 10**9  # steps
UNUSABLE = FileExistsError | NotADirectoryError | PermissionError  # places that a user named


def register_resolvers() -> None:
    """``${package:x}``: a path inside the installed package; ``${val_interval:n}``: n, or practically never;
    ``${run_name:}``: the run's, the same in all of its processes; ``${own_folder:path}``: see ``folders``, where a run
    is launched, else the path; ``${options:${x}}``: what part x is given beside its path."""
    OmegaConf.register_new_resolver("package", lambda name: str(Path(__file__).parent / name), replace=True)
    OmegaConf.register_new_resolver("val_interval", lambda n: n or NO_VALIDATION, replace=True)
    OmegaConf.register_new_resolver("run_name", run_name, replace=True)
    OmegaConf.register_new_resolver("own_folder", str, replace=True)
    OmegaConf.register_new_resolver("options", _options, replace=True)


def _options(part: DictConfig) -> dict[str, Any]:
    given: Any = OmegaConf.to_container(part, resolve=True)
    return {key: value for key, value in given.items() if key not in ("_target_", "path")}


def launch(task: Callable[[DictConfig], Any], config_name: str) -> None:
    """Run a task under Hydra. A user's mistake ends with one line and exit status 2."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the tokenizers warn at every fork otherwise
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    register_resolvers()
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word not in ("-m", "--multirun"))  # argparse wants them first
    args = get_args_parser().parse_args()
    asks = (args.hydra_help, args.cfg, args.info, args.shell_completion)
    sweeps = args.multirun or "hydra.mode=MULTIRUN" in args.overrides
    every = _jobs(args.overrides) if sweeps else [args.overrides]
    others = (args.config_name, args.config_path)  # the user's own configuration, which Hydra checks
    for job in [] if any((*asks, *others)) else every:
        if problem := compose_error(config_name, job, args.config_dir):
            sys.exit(_report(problem))
    if args.help:
        print(usage(config_name, of_the_task(next(iter(every), []), args.config_dir)))
        return
    if rank():
        sys.argv += QUIET

    def folder(path: str) -> str:  # configurations that are merged are resolved, too: these take no folder
        return own_folder(path) if sweeps or HydraConfig.initialized() else path

    if not any(asks):
        OmegaConf.register_new_resolver("own_folder", folder, replace=True)
    begun = False

    def guarded(cfg: DictConfig) -> Any:
        nonlocal begun
        begun = True
        try:
            return task(cfg)
        except Exception as error:
            if problem := _mistake(error, cfg):
                chosen = HydraConfig.get()
                take_away(Path(chosen.runtime.output_dir), chosen.output_subdir)
                sys.exit(_report(problem))
            raise

    guarded.__module__ = "mmcredit"
    try:
        _create_given(args.overrides)
        hydra.main(config_path=CONFIGS, config_name=config_name, version_base="1.3")(guarded)()
        leave()
    except (OSError, HydraException, OmegaConfBaseException) as error:
        if begun:
            raise
        sys.exit(_report(_before_the_task(error)))


def _jobs(overrides: list[str]) -> list[list[str]]:
    try:
        return jobs(overrides)
    except UserError as problem:
        sys.exit(_report(str(problem)))


def _mistake(error: Exception, cfg: DictConfig) -> str | None:
    """What the user did wrong, in one line; None for faults of the program."""
    if mistake := user_error(error):
        return str(mistake)
    known = isinstance(error, InstantiationException | OmegaConfBaseException | UNUSABLE)
    if not known or "MMCREDIT_TRACEBACK" in os.environ:
        return None
    if isinstance(error, UNUSABLE):
        place = "" if error.filename is None else f"{error.filename} cannot be used: "
        return f"{place}{error.strerror or one_line(error)} (MMCREDIT_TRACEBACK=1 shows where)"
    where, cause = re.search(r"full_key: (\S+)", str(error)), error.__cause__
    text = f"{where[1]}: {one_line(cause)}" if where and isinstance(cause, Exception) else one_line(error)
    if where and "unexpected keyword argument" in text:
        part = get_object(OmegaConf.select(cfg, f"{where[1]}._target_"))
        text += f"; there are: {', '.join(inspect.signature(part).parameters)}"
    return f"{text} (MMCREDIT_TRACEBACK=1 shows where)"


def _create_given(overrides: list[str]) -> None:
    """The folder that a user names, so that it is known whether it was there before."""
    for override in overrides:
        key, _, value = override.partition("=")
        if key in ("hydra.run.dir", "hydra.sweep.dir") and value and not rank() and not set(value) & set("${'\""):
            create(Path(value))


def _before_the_task(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    if cause is None:
        return one_line(error)
    return f"the run folder {cause.filename} cannot be written ({cause.strerror}); hydra.run.dir=FOLDER names another"


def _report(problem: str) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return 2


def user_error(error: BaseException | None) -> UserError | None:
    """The user's mistake behind an exception (Hydra wraps what a constructor raises)."""
    while error is not None and not isinstance(error, UserError):
        error = error.__cause__
    return error
