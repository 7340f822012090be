"""Configs with groups, composed by Hydra: from `group=option` and `key=value` arguments to plain data.

Design note: Hydra composes and does nothing else. Its application wrapper would also take over the command line,
logging and the working folder. Defaults come from the dataclass of the command, and the files of `conf/` say what the
options of a group change. An argument may change a value, not add or remove a key.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_type_hints

import hydra
import yaml  # type: ignore[import-untyped]
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

import musicgen
from musicgen.arena.options import ArenaConfig
from musicgen.cli.describe import DescribeConfig
from musicgen.errors import UserError
from musicgen.options import aliases, defaults, help_table, options, unknown_key
from musicgen.training.config import TrainConfig

if TYPE_CHECKING:
    from musicgen.model import PerformerConfig

ROOTS: dict[str, type[Any]] = {"arena": ArenaConfig, "describe": DescribeConfig, "train": TrainConfig}
"""The commands whose config has groups, and the options of each."""

for _root, _kind in ROOTS.items():
    ConfigStore.instance().store(f"{_root}_options", defaults(_kind))  # what the first line of conf/ROOT.yaml names


def config_folder() -> Path:
    """`musicgen/conf` in an installed package, `conf` next to the package in a checkout."""
    package = Path(musicgen.__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def groups(root: str) -> dict[str, dict[str, str]]:
    """The config groups of a root file: group to option to the title of the option's file."""
    return {name: _options(config_folder() / name) for name in _defaults(root)}


def _defaults(root: str) -> dict[str, str | None]:
    """The groups of a root file, and the option of each that holds if none is chosen."""
    content = yaml.safe_load((config_folder() / f"{root}.yaml").read_text("utf-8"))
    return {name: value for entry in content["defaults"] if isinstance(entry, dict) for name, value in entry.items()}


def _options(folder: Path) -> dict[str, str]:
    """The files of a group; one whose name begins with `_` is shared by others and is no option."""
    files = [file for file in sorted(folder.rglob("*.yaml")) if not file.name.startswith("_")]
    return {file.relative_to(folder).with_suffix("").as_posix(): _title(file) for file in files}


def compose(root: str, overrides: list[str]) -> dict[str, Any]:
    """The config of a command, resolved, in plain containers, from `group=option` and `key=value` arguments.

    A path may contain any character and is not parsed.
    """
    overrides, known = renamed(root, overrides), groups(root)
    unset = {f"{group}=null" for group, default in _defaults(root).items() if default is None}
    choices = [override for override in overrides if _is_choice(root, override, known, unset)]
    literal = paths(root, overrides)
    overrides = [item for item in overrides if item not in literal and item not in unset]
    try:
        values = copy.deepcopy(_composed(config_folder(), root, tuple(overrides)))
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise UserError(_sentence(error, root, choices)) from None
    set_literally(values, literal)
    return values


@functools.lru_cache(maxsize=32)
def _composed(folder: Path, root: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    """What Hydra composes. A process that trains several models asks again: all jobs are checked before the first."""
    with hydra.initialize_config_dir(str(folder), version_base="1.3"):
        config = hydra.compose(root, list(overrides))
    return cast(dict[str, Any], OmegaConf.to_container(config, resolve=True, throw_on_missing=True))


def renamed(root: str, overrides: list[str]) -> list[str]:
    """Arguments with the current names of keys."""
    names = aliases(ROOTS[root])
    split = [override.partition("=") for override in overrides]
    return [f"{names.get(key, key)}{equals}{value}" for key, equals, value in split]


def paths(root: str, overrides: list[str]) -> list[str]:
    """The arguments whose keys take a path."""
    keys = list(_path_keys(ROOTS[root]))
    return [override for override in overrides if override.partition("=")[0] in keys]


def _path_keys(kind: Any, prefix: str = "") -> Iterator[str]:
    hints = get_type_hints(kind)
    for name in options(kind):
        if hints[name] in (Path, Path | None):
            yield f"{prefix}{name}"
        elif hasattr(hints[name], "__dataclass_fields__"):
            yield from _path_keys(hints[name], f"{prefix}{name}.")


def set_literally(values: dict[str, Any], overrides: list[str]) -> None:
    """Set keys of a config to exactly what stands after `=`; nothing and `null` unset them."""
    for override in overrides:
        key, _, value = override.partition("=")
        *parents, name = key.split(".")
        functools.reduce(dict.__getitem__, parents, values)[name] = None if value in ("", "null") else value


def configure(root: str, about: str, arguments: list[str]) -> dict[str, Any] | None:
    """A command's config; None after printing what `--help` or `--cfg` asked to see.

    In the text of `--help`, `{keys}` becomes the table of options and `{groups}` that of groups.
    """
    if "--help" in arguments or "-h" in arguments:
        table = help_table(ROOTS[root])
        print(about.strip().replace("{keys}", table).replace("{groups}", _list_groups(root)))
        return None
    if "--cfg" in arguments:
        overrides = [argument for argument in arguments if argument not in ("--cfg", "job")]
        print(OmegaConf.to_yaml(OmegaConf.create(compose(root, overrides))), end="")
        return None
    return compose(root, arguments)


def performer_config(config: dict[str, Any]) -> PerformerConfig:
    """The model config that the `model` and `pe` groups and `vocab_size` describe."""
    from musicgen.model import PerformerConfig  # imports torch: seconds that a mistyped key should not take

    return PerformerConfig.from_groups(config["vocab_size"], config["model"], config["pe"], "config")


def _is_choice(root: str, override: str, known: dict[str, dict[str, str]], unset: set[str]) -> bool:
    """Whether an argument chooses an option of a group; raises an error if it is neither this nor `key=value`."""
    key, equals, value = override.partition("=")
    if key.startswith("hydra"):
        raise UserError(f"{override!r}: is for sweeps (-m)")
    if not equals or not key or key[0] in "+~-":  # + and ~ are Hydra's signs for adding and removing keys
        raise UserError(f"cannot read {override!r}: write key=value (see `musicgen {root} --help`)")
    options_of_group = known.get(key)
    if options_of_group is None:
        return False
    if value not in options_of_group and override not in unset:
        raise UserError(f"{override}: there is no such option; choose from {', '.join(options_of_group)}")
    return True


def _sentence(error: Exception, root: str, choices: list[str]) -> str:
    """What went wrong, naming the key, and what to do."""
    cause = error.__cause__
    if isinstance(cause, (ConfigAttributeError, ConfigKeyError)):
        known = {name: name for name in (*groups(root), *_keys(compose(root, choices)))}
        return unknown_key(str(cause.full_key), known | aliases(ROOTS[root]))
    if several := re.match(r"Ambiguous value for argument '(.*)'", str(error)):
        return f"{several[1]}: takes one value; with -m, one model is trained for each value"
    if isinstance(error, OverrideParseException):
        return f"cannot read {error.override!r}: write key=value (see `musicgen {root} --help`)"
    if isinstance(error, OmegaConfBaseException):
        return f"{error.full_key}: {_first_line(error)}"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"{error.problem_mark.name}, line {error.problem_mark.line + 1}: not YAML ({error.problem})"
    return f"{_first_line(error)} (see `musicgen {root} --help`)"


def _keys(config: dict[str, Any], prefix: str = "") -> list[str]:
    """Every key, with dots, and those above them."""
    keys = []
    for key, value in config.items():
        keys += [f"{prefix}{key}", *(_keys(value, f"{prefix}{key}.") if isinstance(value, dict) else [])]
    return keys


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")


def _title(file: Path) -> str:
    """The first line of a config file, which is a comment; the second, if the first is for Hydra."""
    lines = [line.lstrip("# ") for line in file.read_text("utf-8").split("\n")]
    return lines[1] if lines[0].startswith("@") else lines[0]


def _list_groups(root: str) -> str:
    lines = ["groups:"]
    for group, known in groups(root).items():
        width = max(map(len, known))
        lines += [f"  {group}=", *(f"    {name:{width}}  {title}" for name, title in known.items())]
    return "\n".join(lines)
