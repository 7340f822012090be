"""Sweeps: one run for each combination of values, run by Hydra on this machine or on a cluster.

Design note: all combinations are composed and checked before the first is trained, so that a mistake in the last of
twenty is not found after a week.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf

from musicgen.cli.config import compose, config_folder, groups, paths, renamed, set_literally
from musicgen.errors import UserError

FOLDER = "runs/sweeps"
"""Where Hydra keeps its own records of sweeps."""


@dataclass(frozen=True)
class Trainable:
    """A command that trains.

    Attributes:
        root: The name of its config.
        command: The words that call it, after `musicgen`.
        check: Raises `UserError` if a composed config cannot be trained.
        train: Trains a composed config, and returns whether another run may follow.
    """

    root: str
    command: tuple[str, ...]
    check: Callable[[dict[str, Any]], object]
    train: Callable[[dict[str, Any]], bool]


def sweep(trainable: Trainable, arguments: list[str]) -> int:
    """Train one model for every combination of `key=a,b,c`; the exit status is 2 if a job could not be trained.

    `hydra/launcher=slurm` trains on a cluster.
    """
    root = trainable.root
    arguments = renamed(root, arguments)
    literal = paths(root, arguments)  # their values are not parsed
    swept = [argument for argument in arguments if argument not in literal]
    for job in combinations(swept):
        trainable.check(compose(root, [*job, *literal]))
    fixed = [item.key_or_group for item in _parsed(swept) if not item.is_sweep_override()]
    records = [
        f"hydra.sweep.dir={FOLDER}/${{now:%Y-%m-%d_%H-%M-%S}}",
        "hydra.job.chdir=false",
        f"hydra.job.config.override_dirname.exclude_keys={fixed}",
    ]
    failures: list[str] = []
    argv = sys.argv
    may_go_on = True

    def task(config: DictConfig) -> None:
        nonlocal may_go_on
        if may_go_on:
            may_go_on = train_job(trainable, config, literal, failures, argv[0])
        else:
            print("not trained: the sweep was asked to stop; the same command with resume=auto continues it")

    sys.argv = [" ".join(["musicgen", *trainable.command]), "--multirun", *swept, *records]
    try:
        hydra.main(version_base="1.3", config_path=str(config_folder()), config_name=root)(task)()
    except RuntimeError as error:  # submitit, where there is no cluster
        raise UserError(f"the launcher cannot be used here ({error})") from None
    finally:
        sys.argv = argv
    for failure in failures:
        print(f"musicgen: {failure}", file=sys.stderr)
    return 2 if failures else 0


def train_job(trainable: Trainable, config: DictConfig, literal: list[str], failures: list[str], program: str) -> bool:
    """Train one job of a sweep, in a folder below the run's that is named by what makes the job different.

    Returns:
        Whether the next job may begin.
    """
    job = HydraConfig.get()
    composed: Any = OmegaConf.to_container(config, resolve=True)
    set_literally(composed, literal)
    name = job_name(job.overrides.task, job.job.config.override_dirname.exclude_keys, trainable.root)
    composed["run_dir"] = f"{composed['run_dir']}/{name}"
    # Processes that Lightning starts for this job must run the job, not the sweep.
    hydra_config, argv = HydraConfig.instance().cfg, sys.argv
    words = [*job.overrides.task, *literal, f"run_dir={composed['run_dir']}"]
    HydraConfig.instance().cfg, sys.argv = None, [program, *trainable.command, *words]
    try:
        return trainable.train(composed)
    except UserError as error:
        failures.append(f"{', '.join(job.overrides.task)}: {error}")
        return True
    finally:
        HydraConfig.instance().cfg, sys.argv = hydra_config, argv


def job_name(arguments: Sequence[str], fixed: Collection[str], root: str) -> str:
    """A job's folder name, from what makes the job different: `small.ape_s0` for `experiment=small/ape seed=0`."""
    parts = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key not in fixed:
            parts.append(f"s{value}" if key == "seed" else value if key in groups(root) else argument)
    return "_".join(parts).replace("/", ".") or "run"


def combinations(arguments: list[str]) -> list[list[str]]:
    """The arguments of every job, without those for Hydra itself."""
    choices = [
        [f"{item.key_or_group}={value}" for value in item.sweep_string_iterator()]
        if item.is_sweep_override()
        else [str(item.input_line)]
        for item in _parsed(arguments)
    ]
    return [list(job) for job in itertools.product(*choices)]


def _parsed(arguments: list[str]) -> list[Override]:
    ours = [argument for argument in arguments if not argument.startswith("hydra")]
    try:
        return OverridesParser.create().parse_overrides(ours)
    except OverrideParseException as error:
        raise UserError(f"cannot read {error.override!r}: write key=value or key=a,b,c") from None
