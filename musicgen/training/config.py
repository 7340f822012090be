"""The options of a training run: one dataclass for each part of the config.

`RunConfig` is what every run has, whatever it trains; `TrainConfig` is a run that trains on songs.

Design note: length is in steps, not in epochs. Batches, draws and learning rates are functions of the step, so two runs
can be compared step by step, however many songs they have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from musicgen.options import option, section


def require(condition: bool, sentence: str) -> None:
    """Refuse values that do not go together."""
    if not condition:
        raise ValueError(sentence)


@dataclass(frozen=True)
class DataConfig:
    """Where songs come from and how they are cut."""

    source: Literal["synthetic", "synthetic_grooves", "corpus"] = option(
        "synthetic", help="where songs come from; corpus reads a prepared folder, the others need no files"
    )
    folder: Path | None = option(like="DIR", help="the prepared corpus (data=pop_piano and data=groove)")
    songs: int = option(200, least=3, help="how many songs to compose (synthetic)")
    bars: int = option(32, least=1, help="bars of each composed song (synthetic)")
    length: int = option(512, least=2, most=1 << 20, help="tokens in a training window")
    transpose: int = option(
        6, least=0, most=12, help="transposes windows by up to this many semitones; in grooves, bass and other"
    )
    mix_drums: float = option(
        0.0, least=0, most=1, help="probability that a training example has the drums of another groove (grooves)"
    )
    beginnings: float = option(
        0.0,
        least=0,
        most=1,
        help="probability that a window begins where its song begins, besides chance (pop piano; an example of a "
        "groove always does)",
    )
    tokens: Literal["paper", "extended"] | None = option(
        help="vocabulary that the songs must have; if not given, that of the corpus, or the paper's for composed "
        "songs. A corpus of grooves has both"
    )
    infill: float = option(
        0.0, least=0, most=1, help="probability that a training example has bars taken out, to be filled at its end"
    )

    def __post_init__(self) -> None:
        given = self.source == "corpus" or self.folder is None
        require(given, f"folder={self.folder}: is for a prepared corpus; choose data=pop_piano or data=groove with it")


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam and its learning rate."""

    learning_rate: float = option(5e-4, above=0, help="the highest learning rate of Adam")
    final_learning_rate: float = option(5e-6, above=0, help="the learning rate at the end of its decay")
    warmup_steps: int = option(200, least=0, help="steps in which the learning rate rises to the highest")
    decay_steps: int | None = option(help="steps after which the final rate is reached; all if not given")
    gradient_clip: float = option(0.5, above=0, help="scales longer gradients down to this norm")
    feature_redraw: float = option(
        0.05,
        above=0,
        help="when attention gets new random features: below 1, the probability at each step; from 1 on, every N steps",
    )

    def __post_init__(self) -> None:
        final, redraw = self.final_learning_rate, self.feature_redraw
        require(final <= self.learning_rate, f"final_learning_rate={final}: takes at most learning_rate")
        late = self.decay_steps is None or self.decay_steps > self.warmup_steps
        require(late, f"decay_steps={self.decay_steps}: takes more than warmup_steps={self.warmup_steps}")
        fits = redraw < 1 or redraw == int(redraw)
        require(fits, f"feature_redraw={redraw}: takes a probability between 0 and 1, or a whole number of steps")


@dataclass(frozen=True)
class ValidationConfig:
    """How the model is validated while it trains, always on the same data with the same noise."""

    every: int = option(250, least=1, help="steps between validations")
    draws: int = option(3, least=1, help="draws of noise over which the loss is averaged")
    patience: int | None = option(least=1, help="stops training after this many validations without a better loss")


@dataclass(frozen=True)
class SongValidation(ValidationConfig):
    """Validation on songs."""

    songs: int | None = option(least=1, help="how many songs of the split valid; all if not given")
    extrapolate: float = option(1.5, least=1, help="validates songs up to this many times the training length")
    sample_bars: int | None = option(
        8, least=1, help="bars of the piece that each validation writes to samples/; null for none"
    )


@dataclass(frozen=True)
class TrainerConfig:
    """The machine, and how long it works."""

    accelerator: Literal["auto", "cpu", "gpu"] = option("auto", help="what computes; auto takes a GPU if there is one")
    devices: int | Literal["auto"] = option(
        "auto", least=1, help="how many GPUs, or processes on a CPU; auto takes all GPUs with ddp and fsdp, else one"
    )
    num_nodes: int = option(1, least=1, help="how many machines")
    strategy: Literal["single", "ddp", "fsdp"] = option(
        "single", help="how processes share the work: with ddp each has the model, with fsdp each has a part of it"
    )
    precision: Literal["float32", "bf16"] = option(
        "float32", help="number format of the arithmetic; bf16 is tested first and refused where it does not work"
    )
    threads: int | None = option(least=1, help="threads of the CPU; measures the fastest if not given")
    max_steps: int = option(1000, least=1, help="steps to train")
    checkpoint_every: int = option(200, least=1, help="steps between checkpoints")
    log_every: int = option(10, least=1, help="steps between lines of the log")
    checkpoint_activations: bool = option(
        False, help="computes layers again in the backward pass, which saves memory and costs time"
    )
    compile: bool = option(False, help="compiles the feed-forward networks first; worth it for long runs on a GPU")

    def __post_init__(self) -> None:
        alone = self.devices in ("auto", 1) and self.num_nodes == 1
        require(alone or self.strategy != "single", "strategy=single: is for one process; choose trainer=ddp or fsdp")


@dataclass(frozen=True)
class LoggerConfig:
    """Where losses are logged, besides the table metrics.csv."""

    name: Literal["csv", "tensorboard", "wandb"] = option("csv", help="where losses are logged; csv: metrics.csv alone")
    project: str = option("musicgen", help="the project on Weights & Biases (wandb)")
    mode: Literal["online", "offline"] = option("offline", help="offline needs no account (wandb)")


@dataclass(frozen=True)
class RunConfig:
    """What every run has."""

    optimizer: OptimizerConfig = section(OptimizerConfig, "Adam and its learning rate")
    validation: ValidationConfig = section(ValidationConfig, "validation")
    trainer: TrainerConfig = section(TrainerConfig, "the machine")
    logger: LoggerConfig = section(LoggerConfig, "the log")
    batch_size: int = option(8, least=1, help="examples in a step, over all processes and parts")
    accumulate: int = option(
        1, least=1, help="splits a process's share of a batch into this many parts, to save memory; divides batch_size"
    )
    seed: int = option(0, least=0, most=2**63 - 1, help="seed of weights, batches and noise")
    run_dir: Path = option(
        Path("runs/default"), like="DIR", aliases=("out",), help="folder of the run; out=DIR means the same"
    )
    resume: Literal["auto"] | None = option(
        like="auto", help="auto continues from the last checkpoint in the folder, if there is one"
    )
    overwrite: bool = option(False, help="true deletes a run that is in the folder and starts again")

    def __post_init__(self) -> None:
        fits = self.batch_size % self.accumulate == 0
        require(fits, f"accumulate={self.accumulate}: takes a number that divides batch_size={self.batch_size}")
        either = not (self.overwrite and self.resume)
        require(either, "overwrite=true deletes a run and resume=auto continues it; choose one")


@dataclass(frozen=True)
class TrainConfig(RunConfig):
    """A run on songs. `model` and `pe` hold the keys of `PerformerConfig`, which checks them."""

    model: dict[str, Any] = field(default_factory=dict)
    pe: dict[str, Any] = field(default_factory=dict)
    data: DataConfig = section(DataConfig, "songs")
    validation: SongValidation = section(SongValidation, "validation")
    init_from: str | None = option(
        like="MODEL",
        help="starts from the weights of a model (a bundle, a run or a built-in name), with its size and encoding; "
        "of model and pe, only model.dropout counts then",
    )
