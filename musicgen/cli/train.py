"""`musicgen train`: from a config to a trained model.

Design note: we compose a single run ourselves, so that a wrong key is one sentence. Hydra runs a sweep (`-m`) with its
launchers, and each of its jobs is again a single run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from musicgen.cli.config import configure
from musicgen.options import build

if TYPE_CHECKING:
    from musicgen.training.config import TrainConfig

ABOUT = """\
usage: musicgen train [experiment=NAME] [group=option ...] [key=value ...]
       musicgen train -m pe=ape,sine,conv [key=value ...]

Trains a model and writes to run_dir: config.json, metrics.csv, curves.png, checkpoints, and the best model as a bundle.
A run that was stopped at any moment continues with the same command and resume=auto, and has the losses that it would
have had without the stop. -m trains one model for each combination of values.

Your own corpus: data=pop_piano data.folder=DIR, or data=groove data.folder=DIR for grooves.
A decay of attention joins any positional encoding: model.decay=fixed.

{keys}

{groups}

`musicgen train --cfg` prints every key and its value, also those of model and pe.

example: musicgen train experiment=smoke
"""


def run(arguments: list[str]) -> int:
    """Train, or start a sweep."""
    rest = [argument for argument in arguments if argument not in ("-m", "--multirun")]
    is_question = {"-h", "--help", "--cfg"} & set(rest)
    if len(rest) < len(arguments) and not is_question:
        from musicgen.cli.sweep import Trainable, sweep

        return sweep(Trainable("train", ("train",), checked, train_composed), rest)
    composed = configure("train", ABOUT, rest)
    if composed is not None:
        train_composed(composed)
    return 0


def train_composed(composed: dict[str, Any]) -> bool:
    """Train what a composed config describes, and return whether another run may follow."""
    config = checked(composed)
    from musicgen.training.run import train  # a slow import: wrong values are reported before it

    return train(config, composed, print)


def checked(composed: dict[str, Any]) -> TrainConfig:
    """A composed config as the run it describes."""
    from musicgen.model.config import PerformerConfig
    from musicgen.training.config import TrainConfig

    config = build(TrainConfig, composed)
    PerformerConfig.from_groups(1, config.model, config.pe, "model or pe")  # the vocabulary comes with the corpus
    return config
