"""What ``--help`` prints: the same parts for every command, read off its configuration."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf, open_dict

import mmcredit.configs

WIDTH = 120


def usage(config_name: str, overrides: list[str]) -> str:
    """What the command is for, with examples (``hydra.help.template``), its groups and its values.

    Args:
        overrides: what else was typed; they must compose.
    """
    GlobalHydra.instance().clear()
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        composed = hydra.compose(config_name, overrides=overrides, return_hydra_config=True)
        loader = GlobalHydra.instance().config_loader()
    about, choices = composed.hydra.help.template.rstrip(), composed.hydra.runtime.choices
    with open_dict(composed):
        del composed["hydra"]
    chosen = {name: option for name, option in choices.items() if not name.startswith("hydra")}
    plain: Any = OmegaConf.to_container(composed, resolve=False)
    lists = {name: _parts(node) for name, node in plain.items() if name not in chosen and isinstance(node, dict)}
    there = {name: loader.get_group_options(name.split("@")[0]) for name in (*chosen, *lists)}
    groups = [_group(name, option, there[name]) for name, option in (chosen | lists).items() if there[name]]
    parts = {
        "Groups, as chosen, and what there is; those in brackets take lists": "\n".join(sorted(groups)),
        "Values of its own": own_values(config_name),
        "All values, as composed": OmegaConf.to_yaml(composed).rstrip(),
    }
    return "\n\n".join([about, *(f"{title}:\n{textwrap.indent(text, '  ')}" for title, text in parts.items())])


def _parts(node: dict[str, Any]) -> str:
    return f"[{','.join(name for name, part in node.items() if isinstance(part, dict) and '_target_' in part)}]"


def _group(name: str, option: str | None, there: list[str]) -> str:
    line = f"{name}={'null' if option is None else option}: {', '.join(sorted(there))}"
    return textwrap.fill(line, WIDTH - 2, subsequent_indent="    ")


def own_values(config_name: str) -> str:
    """The lines of a command's configuration between its defaults and what is set of Hydra, with their comments."""
    text = (Path(mmcredit.configs.__file__).parent / f"{config_name}.yaml").read_text("utf-8")
    return text.partition("\n\n")[2].partition("\nhydra:")[0].strip()
