"""The folder of a run.

    config.json     the composed config, and the corpus's hash
    metrics.csv     what was measured
    curves.png      a picture of it
    samples/        a piece from every validation
    checkpoints/    last.ckpt and best.ckpt, for resuming
    bundle/         the best model, for use

The hard choice: a folder is one run. The same command goes on with it (`resume=auto`), another config is refused, and
nothing is overwritten that was not asked to be.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

from musicgen.errors import UserError
from musicgen.files import atomic_write, kind_of
from musicgen.training.checkpoints import BEST, LAST
from musicgen.training.config import TrainConfig

CONFIG, METRICS, CURVES = "config.json", "metrics.csv", "curves.png"
CHECKPOINTS, BUNDLE, SAMPLES = "checkpoints", "bundle", "samples"
FREE = ("resume", "overwrite", "run_dir", "logger")
"""Keys that may change when a run goes on."""
FREE_OF_TRAINER = ("accelerator", "devices", "num_nodes", "strategy", "threads", "checkpoint_every", "log_every")


def open_folder(config: TrainConfig, record: dict[str, Any]) -> None:
    """Make the run's folder, or see that what is there may be gone on with. A run without a checkpoint may begin anew.

    Raises:
        UserError: It holds something else, or a run and nobody said what is to become of it.
    """
    folder = config.run_dir.resolve()
    kind = kind_of(folder)
    if kind in ("file", "other"):
        raise UserError(f"run_dir={config.run_dir}: exists and is not a folder; choose another name")
    if kind == "folder" and any(folder.iterdir()):
        if not (folder / CONFIG).is_file():
            raise UserError(f"run_dir={config.run_dir}: holds something else than a run; choose another folder")
        if config.overwrite:
            shutil.rmtree(folder, ignore_errors=True)
        elif config.resume is None and any((folder / CHECKPOINTS).glob("*.ckpt")):
            raise UserError(
                f"run_dir={config.run_dir}: holds a run already; "
                "resume=auto goes on with it, overwrite=true throws it away"
            )
    try:
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"run_dir={config.run_dir}: cannot be made ({error.strerror})") from None
    if not (folder / CHECKPOINTS / LAST).is_file():
        (folder / CHECKPOINTS / BEST).unlink(missing_ok=True)  # of a beginning that is not gone on with
        atomic_write(folder / CONFIG, (json.dumps(record, indent=1) + "\n").encode())


def check_same_run(record: dict[str, Any], resumed: dict[str, Any], config: TrainConfig) -> None:
    """See that a checkpoint is of the same run.

    Raises:
        UserError: It is not; the sentence names what differs.
    """
    if record["corpus"] != resumed["corpus"]:
        raise UserError(f"{config.run_dir}: the run was trained on another corpus; choose another run_dir")
    ours, theirs = (_decisive(item["config"]) for item in (record, resumed))
    # What a run of an older version knows nothing of is no difference as long as it is off.
    known = theirs | {key: value for key, value in ours.items() if key not in theirs and not value}
    changed = [key for key in sorted(ours.keys() | theirs.keys()) if ours.get(key) != known.get(key)]
    if changed:
        key = changed[0]
        more = f" (and {len(changed) - 1} other keys)" if len(changed) > 1 else ""
        raise UserError(
            f"{key}={ours.get(key)}: the run in {config.run_dir} has {theirs.get(key)}{more}; "
            "give the same, or choose another run_dir"
        )


def _decisive(config: dict[str, Any]) -> dict[str, Any]:
    """The keys that make a run what it is, with dots."""
    free = [*FREE, *(f"trainer.{name}" for name in FREE_OF_TRAINER)]
    if config["optimizer"]["decay_steps"] is not None:
        free.append("trainer.max_steps")  # it is not in the learning rate then
    flat = dict(_flatten(config))
    return {key: value for key, value in flat.items() if not any(f"{key}.".startswith(f"{name}.") for name in free)}


def _flatten(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
