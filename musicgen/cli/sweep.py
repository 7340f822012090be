"""Sweeps: one run for every combination of values, by Hydra's own means, on this machine or on a cluster.

The hard choice: every combination is composed and checked before the first is trained. A mistake in the last of
twenty should not be found after a week.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import OverrideParseException
from omegaconf import DictConfig, OmegaConf

from musicgen.cli.compose import compose, config_folder
from musicgen.cli.train import PATHS, train_composed
from musicgen.cli.typed import build
from musicgen.errors import UserError
from musicgen.training.config import TrainConfig

FOLDER = "runs/sweeps"
"""Where Hydra keeps its own records of sweeps."""


def sweep(arguments: list[str]) -> int:
    """Train one model for every combination.

    Args:
        arguments: `key=a,b,c` and `key=value`; `hydra/launcher=slurm` has a cluster do it.

    Raises:
        UserError: A combination that cannot be trained.
    """
    for job in combinations(arguments):
        build(TrainConfig, compose("train", job, PATHS))
    argv = sys.argv
    fixed = [item.key_or_group for item in _parsed(arguments) if not item.is_sweep_override()]
    records = [
        f"hydra.sweep.dir={FOLDER}/${{now:%Y-%m-%d_%H-%M-%S}}",
        "hydra.job.chdir=false",
        f"hydra.job.config.override_dirname.exclude_keys={fixed}",
    ]
    sys.argv = ["musicgen train", "--multirun", *arguments, *records]
    try:
        hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="train")(train_job)()
    finally:
        sys.argv = argv
    return 0


def train_job(config: DictConfig) -> None:
    """A job of a sweep, in a folder of its own below the run's, named by what makes the job different."""
    composed: Any = OmegaConf.to_container(config, resolve=True)
    difference = HydraConfig.get().job.override_dirname.replace("/", ".") or "run"
    composed["run_dir"] = f"{composed['run_dir']}/{difference}"
    train_composed(composed)


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
