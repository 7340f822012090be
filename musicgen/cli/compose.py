"""From config files and `key=value` arguments to plain data, and from Hydra's errors to one sentence.

The hard choice: Hydra composes and does nothing else. Its application wrapper would also take over the
command line, logging and the working folder. And the files alone say which keys there are: an argument may
change a value, not add or remove a key, because a key that no code reads is a mistake.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import hydra
import yaml  # type: ignore[import-untyped]
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

import musicgen
from musicgen.errors import UserError

if TYPE_CHECKING:
    from musicgen.model import PerformerConfig


def config_folder() -> Path:
    """`musicgen/conf` in an installed package, `conf` beside the package in a checkout."""
    package = Path(musicgen.__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def groups(root: str) -> dict[str, dict[str, str]]:
    """The config groups of a root file: group to option to what the option's file says of itself."""
    return {name: _options(config_folder() / name) for name in _defaults(root)}


def _defaults(root: str) -> dict[str, str | None]:
    """The groups of a root file, and the option of each that holds if none is chosen."""
    content = yaml.safe_load((config_folder() / f"{root}.yaml").read_text("utf-8"))
    return {
        name: value for entry in content.get("defaults", []) if isinstance(entry, dict) for name, value in entry.items()
    }


def _options(folder: Path) -> dict[str, str]:
    files = sorted(folder.rglob("*.yaml"))
    return {file.relative_to(folder).with_suffix("").as_posix(): _title(file) for file in files}


def compose(root: str, overrides: list[str], paths: Collection[str] = ()) -> dict[str, Any]:
    """The config of a verb, resolved, in plain containers.

    Args:
        root: The verb's file in the config folder, without `.yaml`.
        overrides: `group=option` and `key=value` arguments.
        paths: Keys that take a path, which may hold any character: Hydra's own syntax is not looked for in it.
    """
    choices = [override for override in overrides if _is_choice(root, override)]
    literal = [override for override in overrides if override.partition("=")[0] in paths]
    unset = {f"{group}=null" for group, default in _defaults(root).items() if default is None}
    overrides = [item for item in overrides if item.partition("=")[0] not in paths and item not in unset]
    try:
        with hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
            config = hydra.compose(root, overrides)
        values = cast(dict[str, Any], OmegaConf.to_container(config, resolve=True, throw_on_missing=True))
    except (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError) as error:
        raise UserError(_sentence(error, root, choices)) from None
    set_literally(values, literal)
    return values


def set_literally(values: dict[str, Any], overrides: list[str]) -> None:
    """Set keys of a config to what stands after `=`, whatever it is; nothing and `null` unset them."""
    for override in overrides:
        key, _, value = override.partition("=")
        *parents, name = key.split(".")
        functools.reduce(dict.__getitem__, parents, values)[name] = None if value in ("", "null") else value


def configure(root: str, about: str, arguments: list[str], paths: Collection[str] = ()) -> dict[str, Any] | None:
    """A verb's config; or None, having printed what `--help` or `--cfg` asked to see.

    Args:
        root: The verb, whose config file has its name.
        about: What `--help` says before it lists the config groups.
        arguments: What was given after the verb.
        paths: Keys that take a path.
    """
    if "--help" in arguments or "-h" in arguments:
        print(about.strip(), _list_groups(root), sep="\n\n")
        return None
    if "--cfg" in arguments:
        overrides = [argument for argument in arguments if argument not in ("--cfg", "job")]
        print(OmegaConf.to_yaml(OmegaConf.create(compose(root, overrides, paths))), end="")
        return None
    return compose(root, arguments, paths)


def performer_config(config: dict[str, Any]) -> PerformerConfig:
    """The model config that the `model` and `pe` groups and `vocab_size` describe."""
    from musicgen.model import PerformerConfig  # imports torch: seconds that a mistyped key should not take

    return PerformerConfig.from_groups(config["vocab_size"], config["model"], config["pe"], "config")


def _is_choice(root: str, override: str) -> bool:
    """Whether an argument chooses an option of a group; refuses what is neither that nor `key=value`."""
    key, equals, value = override.partition("=")
    if key.startswith("hydra"):
        raise UserError(f"{override!r}: is for sweeps (-m)")
    if not equals or not key or key[0] in "+~-":  # + and ~ are Hydra's signs for adding and removing keys
        raise UserError(f"cannot read {override!r}: write key=value (see `musicgen {root} --help`)")
    options = groups(root).get(key)
    may_be_null = value == "null" and _defaults(root).get(key, "") is None
    if options is not None and value not in options and not may_be_null:
        raise UserError(f"{override!r}: there is no such option, choose from {', '.join(options)}")
    return options is not None


def _sentence(error: Exception, root: str, choices: list[str]) -> str:
    """What went wrong, naming the key, and what to do."""
    cause = error.__cause__
    if isinstance(cause, (ConfigAttributeError, ConfigKeyError)):
        return _unknown(str(cause.full_key), list(dict.fromkeys([*groups(root), *_keys(compose(root, choices))])))
    if "Ambiguous value" in str(error):
        return f"{_first_line(error)}: -m trains one model for each value"
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


def _unknown(key: str, known: list[str]) -> str:
    group, _, name = key.rpartition(".")
    siblings = [other for other in known if other.rpartition(".")[0] == group]
    candidates = {other.rpartition(".")[2]: other for other in (siblings if group and siblings else known)}
    close = [candidates[other] for other in difflib.get_close_matches(name, candidates, 3)]
    if close:
        meant = next((other for other in close if "." not in other), close[0])  # shorter keys are typed more often
        return f"unknown key {key!r}: did you mean {meant!r}?"
    return f"unknown key {key!r} (known: {', '.join(siblings or known)})"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".")


def _title(file: Path) -> str:
    """The first line of a config file, which is a comment; the second, if the first is for Hydra."""
    lines = [line.lstrip("# ") for line in file.read_text("utf-8").split("\n")]
    return lines[1] if lines[0].startswith("@") else lines[0]


def _list_groups(root: str) -> str:
    lines = []
    for group, options in groups(root).items():
        width = max(map(len, options))
        lines += [f"{group}=", *(f"  {option:{width}}  {title}" for option, title in options.items())]
    return "\n".join([*lines, *([""] if lines else []), f"`musicgen {root} --cfg` prints every key and its value."])
