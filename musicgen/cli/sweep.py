"""Sweeps: one run for every combination of values, by Hydra's own means, on this machine or on a cluster.

The hard choice: every combination is composed and checked before the first is trained. A mistake in the last of
twenty should not be found after a week.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Collection, Sequence
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf

from musicgen.cli.compose import compose, config_folder, groups, set_literally
from musicgen.cli.train import PATHS, checked, train_composed
from musicgen.errors import UserError

FOLDER = "runs/sweeps"
"""Where Hydra keeps its own records of sweeps."""


def sweep(arguments: list[str]) -> int:
    """Train one model for every combination.

    Args:
        arguments: `key=a,b,c` and `key=value`; `hydra/launcher=slurm` has a cluster do it.

    Returns:
        The exit status: 2 if a job could not be trained.

    Raises:
        UserError: A combination that cannot be trained, or a launcher that cannot be used.
    """
    paths = [argument for argument in arguments if argument.partition("=")[0] in PATHS]  # stand for themselves
    swept = [argument for argument in arguments if argument not in paths]
    for job in combinations(swept):
        checked(compose("train", [*job, *paths], PATHS))
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
            may_go_on = train_job(config, paths, failures, argv[0])
        else:
            print("not trained: the sweep was asked to stop; the same command with resume=auto goes on")

    sys.argv = ["musicgen train", "--multirun", *swept, *records]
    try:
        hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="train")(task)()
    except RuntimeError as error:  # submitit, where there is no cluster
        raise UserError(f"the launcher cannot be used here ({error})") from None
    finally:
        sys.argv = argv
    for failure in failures:
        print(f"musicgen: {failure}", file=sys.stderr)
    return 2 if failures else 0


def train_job(config: DictConfig, paths: list[str], failures: list[str], program: str) -> bool:
    """A job of a sweep, in a folder of its own below the run's, named by what makes the job different.

    Returns:
        Whether the next may begin.
    """
    job = HydraConfig.get()
    composed: Any = OmegaConf.to_container(config, resolve=True)
    set_literally(composed, paths)
    name = job_name(job.overrides.task, job.job.config.override_dirname.exclude_keys)
    composed["run_dir"] = f"{composed['run_dir']}/{name}"
    # Processes that Lightning starts for this job are to run the job, not the sweep.
    hydra_config, argv = HydraConfig.instance().cfg, sys.argv
    words = [*job.overrides.task, *paths, f"run_dir={composed['run_dir']}"]
    HydraConfig.instance().cfg, sys.argv = None, [program, "train", *words]
    try:
        return train_composed(composed)
    except UserError as error:
        failures.append(f"{', '.join(job.overrides.task)}: {error}")
        return True
    finally:
        HydraConfig.instance().cfg, sys.argv = hydra_config, argv


def job_name(arguments: Sequence[str], fixed: Collection[str]) -> str:
    """What makes a job different, as the name of a folder: `small.ape_s0` for `experiment=small/ape seed=0`.

    Args:
        arguments: Of the job.
        fixed: Keys that all jobs have alike.
    """
    parts = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key not in fixed:
            parts.append(f"s{value}" if key == "seed" else value if key in groups("train") else argument)
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
