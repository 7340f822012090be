"""`musicgen train`: from a config to a trained model.

The hard choice: a single run is composed by us, so that a wrong key is one sentence; a sweep (`-m`) is Hydra's own,
with its launchers, and each of its jobs is again a single run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from musicgen.cli.compose import configure
from musicgen.cli.typed import build

if TYPE_CHECKING:
    from musicgen.training.config import TrainConfig

PATHS = ("data.folder", "run_dir")
ABOUT = """\
usage: musicgen train [experiment=NAME] [group=option ...] [key=value ...]
       musicgen train -m pe=ape,sine,conv [key=value ...]

Trains a model and writes to run_dir: config.json, metrics.csv, curves.png, checkpoints, and the best model as a
bundle. The same command with resume=auto goes on with a run that was stopped, at any moment, and gives the losses
that it would have given unstopped. -m trains one model for every combination of values.

keys that are often changed:
  data=pop_piano data.folder=DIR   a corpus that `musicgen prepare` has made (data=groove: one of grooves)
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
    rest = [argument for argument in arguments if argument not in ("-m", "--multirun")]
    is_question = {"-h", "--help", "--cfg"} & set(rest)
    if len(rest) < len(arguments) and not is_question:
        from musicgen.cli.sweep import sweep

        return sweep(rest)
    composed = configure("train", ABOUT, rest, PATHS)
    if composed is not None:
        train_composed(composed)
    return 0


def train_composed(composed: dict[str, Any]) -> bool:
    """Train what a composed config describes, and say whether more may be trained after it."""
    config = checked(composed)
    from musicgen.training.run import train  # seconds of imports, which a wrong value should not take

    return train(config, composed, print)


def checked(composed: dict[str, Any]) -> TrainConfig:
    """A composed config as the run it describes.

    Raises:
        UserError: A value that its key cannot take.
    """
    from musicgen.model.config import PerformerConfig
    from musicgen.training.config import TrainConfig

    config = build(TrainConfig, composed)
    PerformerConfig.from_groups(1, config.model, config.pe, "model or pe")  # the vocabulary comes with the corpus
    return config
