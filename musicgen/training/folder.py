"""The folder of a run.

    config.json     the composed config and the hash of the corpus
    metrics.csv     losses and other metrics
    curves.png      a plot of them
    samples/        one piece per validation
    checkpoints/    last.ckpt and best.ckpt, for resuming
    bundle/         the best model, ready to use

One folder is one run. The same command with `resume=auto` continues it, another config is refused, and nothing is
overwritten without `overwrite=true`.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from musicgen.errors import UserError
from musicgen.files import UNFINISHED, atomic_write, check_output, kind_of, only_writer, strangers, user_errors
from musicgen.inputs import is_document
from musicgen.model.bundle import foreign_to_bundle
from musicgen.training.checkpoints import BEST, LAST
from musicgen.training.config import RunConfig

CONFIG, METRICS, CURVES = "config.json", "metrics.csv", "curves.png"
CHECKPOINTS, BUNDLE, SAMPLES = "checkpoints", "bundle", "samples"
RECORD = {"config": {"model": dict, "pe": dict, "optimizer": dict, "trainer": dict}, "corpus": str}
"""The shape of `config.json`. No other program writes such a file, so it marks a folder as a run."""
FREE = ("resume", "overwrite", "run_dir", "logger")
"""Keys that may change when a run is resumed."""
FREE_OF_TRAINER = ("accelerator", "devices", "num_nodes", "strategy", "threads", "checkpoint_every", "log_every")


SameOptions = Callable[[dict[str, Any], dict[str, Any]], list[str]]


@contextlib.contextmanager
def open_folder(config: RunConfig, record: dict[str, Any]) -> Iterator[None]:
    """Make the folder of a run, or check that the existing run may be resumed or replaced; and keep others out of it.

    A run without a checkpoint may start again.

    Raises:
        UserError: The folder holds something else, or a run without `resume` or `overwrite`.
    """
    folder = config.run_dir.resolve()
    checkpoints = folder / CHECKPOINTS
    begun = kind_of(checkpoints) == "folder" and any(checkpoints.glob("*.ckpt"))
    there = check_output(
        config.run_dir,
        "a run",
        foreign_to_run if config.overwrite else not_a_run,
        key="run_dir",
        may_replace=config.overwrite or config.resume is not None or not begun,
        advice="resume=auto continues it, overwrite=true deletes it",
    )
    with user_errors(config.run_dir):
        folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder, "run_dir"):
        with user_errors(config.run_dir):
            if config.overwrite:
                for path in there:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            if not (checkpoints / LAST).is_file():
                # The record comes first: it marks the folder as ours if we are killed.
                atomic_write(folder / CONFIG, (json.dumps(record, indent=1) + "\n").encode())
                (checkpoints / BEST).unlink(missing_ok=True)  # it belongs to a run that starts again
            checkpoints.mkdir(exist_ok=True)
        yield


def not_a_run(folder: Path) -> list[str]:
    """Names in a folder that is not a run; none if it is one, whatever else is in it."""
    names = sorted(path.name for path in folder.iterdir() if not UNFINISHED.fullmatch(path.name))
    return [] if is_document(folder / CONFIG, RECORD) else names


def foreign_to_run(folder: Path) -> list[str]:
    """Names in a folder that no run makes, also in the folders inside it."""
    if others := not_a_run(folder):
        return others
    found = []
    for path in sorted(folder.iterdir()):
        inside = _PARTS.get(re.sub(r"^\.bundle\.\d+(\.old)?\.partial$", BUNDLE, path.name))
        if inside is not None and path.is_dir() and not path.is_symlink():
            found += [f"{path.name}/{name}" for name in inside(path)]
        elif path.is_symlink() or not path.is_file() or not _FILES.fullmatch(path.name):
            found.append(path.name)
    return found


def _only(names: str) -> Callable[[Path], list[str]]:
    """Names in a folder, except of files with certain names."""
    return lambda folder: strangers(folder, lambda path: re.fullmatch(names, path.name) is not None)


_FILES = re.compile(rf"config\.json|metrics\.csv|curves\.png|{UNFINISHED.pattern}")
_PARTS: dict[str, Callable[[Path], list[str]]] = {
    CHECKPOINTS: _only(r"(last|best)\.ckpt|\.(last|best)\.ckpt\.partial"),
    BUNDLE: lambda folder: foreign_to_bundle(folder) if any(folder.iterdir()) else [],
    SAMPLES: _only(r"step_\d+\.(mid|png)"),
    "tensorboard": _only(r"events\.out\.tfevents\..+|hparams\.yaml"),
    "wandb": lambda folder: [
        path.name for path in folder.iterdir() if not re.match(r"(offline-)?run-|latest-run$|debug.*\.log$", path.name)
    ],
}
"""Folders in a run, and what does not belong in each."""


def check_same_run(
    record: dict[str, Any], resumed: dict[str, Any], config: RunConfig, same_options: SameOptions
) -> None:
    """Check that a checkpoint belongs to the same run.

    Args:
        record: What describes this run.
        resumed: The same in the checkpoint.
        config: The config of this run.
        same_options: Names options of a model that have the same effect in two configs.

    Raises:
        UserError: It does not; the message names the key that differs.
    """
    ours, theirs = (_decisive(item["config"]) for item in (record, resumed))
    # A key that an older version did not have makes no difference while it changes nothing.
    same = [
        f"{group}.{name}" for name in same_options(record["config"], resumed["config"]) for group in ("model", "pe")
    ]
    known = theirs | {key: value for key, value in ours.items() if key not in theirs and (not value or key in same)}
    changed = [key for key in sorted(ours.keys() | theirs.keys()) if ours.get(key) != known.get(key)]
    if changed:
        key = changed[0]
        more = f" (and {len(changed) - 1} other keys)" if len(changed) > 1 else ""
        raise UserError(
            f"{key}={ours.get(key)}: the run in {config.run_dir} has {theirs.get(key)}{more}; "
            "use the same value, or choose another run_dir"
        )
    if record["corpus"] != resumed["corpus"]:
        raise UserError(f"{config.run_dir}: the run was trained on another corpus; choose another run_dir")


def _decisive(config: dict[str, Any]) -> dict[str, Any]:
    """The keys that must stay the same, with dots."""
    free = [*FREE, *(f"trainer.{name}" for name in FREE_OF_TRAINER)]
    if config["optimizer"]["decay_steps"] is not None:
        free.append("trainer.max_steps")  # the learning rate does not depend on it then
    flat = dict(_flatten(config))
    return {key: value for key, value in flat.items() if not any(f"{key}.".startswith(f"{name}.") for name in free)}


def _flatten(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
