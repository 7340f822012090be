"""`musicgen train`: from a config to a trained model.

The hard choice: a single run is composed by us, so that a wrong key is one sentence; a sweep (`-m`) is Hydra's own,
with its launchers, and each of its jobs is again a single run.
"""

from __future__ import annotations

from typing import Any

from musicgen.cli.compose import compose, configure
from musicgen.cli.typed import build

PATHS = ("data.folder", "run_dir")
ABOUT = """\
usage: musicgen train [experiment=NAME] [group=option ...] [key=value ...]
       musicgen train -m pe=ape,sine,conv [key=value ...]

Trains a model and writes to run_dir: config.json, metrics.csv, curves.png, checkpoints, and the best model as a
bundle. The same command with resume=auto goes on with a run that was stopped, at any moment, and gives the losses
that it would have given unstopped. -m trains one model for every combination of values.

keys that are often changed:
  data.folder=DIR         a corpus that `musicgen prepare` has made
  run_dir=DIR             folder of the run
  resume=auto             go on from the last checkpoint
  trainer.max_steps=N     steps to train
  batch_size=N accumulate=K   windows in a step, and the parts in which they are computed
  optimizer.learning_rate=X
  model.decay=fixed       a decay of attention joins any encoding

example: musicgen train experiment=smoke
"""


def run(arguments: list[str]) -> int:
    """Train, or start a sweep."""
    if "-m" in arguments or "--multirun" in arguments:
        from musicgen.cli.sweep import sweep

        return sweep([argument for argument in arguments if argument not in ("-m", "--multirun")])
    composed = configure("train", ABOUT, arguments, PATHS)
    if composed is not None:
        train_composed(composed)
    return 0


def train_overrides(overrides: list[str]) -> None:
    """Train what arguments describe."""
    train_composed(compose("train", overrides, PATHS))


def train_composed(composed: dict[str, Any]) -> None:
    """Train what a composed config describes."""
    from musicgen.training.config import TrainConfig

    config = build(TrainConfig, composed)
    from musicgen.training.run import train  # seconds of imports, which a wrong value should not take

    train(config, composed, print)
