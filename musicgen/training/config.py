"""What a training run is made of, as dataclasses: one for each part of `conf/train.yaml`.

The hard choice: length is in steps, not in epochs. A step is what a batch, a draw and a learning rate are functions
of, so it is what two runs have in common, however many songs there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

MOST_TOKENS = 1 << 20
"""In a window: more would not fit any memory."""


def require(condition: bool, sentence: str) -> None:
    """Refuse a value.

    Raises:
        ValueError: The condition does not hold.
    """
    if not condition:
        raise ValueError(sentence)


@dataclass(frozen=True)
class DataConfig:
    """Where songs come from and how they are cut.

    Attributes:
        source: `synthetic` composes songs, `synthetic_grooves` accompaniments; `corpus` reads a prepared folder.
        folder: The prepared corpus.
        songs: How many songs to compose.
        bars: How long each of them is.
        length: Tokens in a window.
        transpose: Most semitones by which windows are transposed.
        mix_drums: Of grooves, the chance that an example has the drums of another.
    """

    source: Literal["synthetic", "synthetic_grooves", "corpus"]
    folder: Path | None
    songs: int
    bars: int
    length: int
    transpose: int
    mix_drums: float

    def __post_init__(self) -> None:
        require(2 <= self.length <= MOST_TOKENS, f"length={self.length}: takes a number from 2 to {MOST_TOKENS:,}")
        given = self.source == "corpus" or self.folder is None
        require(given, f"folder={self.folder}: is for a prepared corpus; choose data=pop_piano or data=groove with it")
        require(0 <= self.transpose <= 12, f"transpose={self.transpose}: takes a number from 0 to 12")
        require(0 <= self.mix_drums <= 1, f"mix_drums={self.mix_drums}: takes a number from 0 to 1")
        require(self.songs >= 3, f"songs={self.songs}: takes a number from 3 on")
        require(self.bars >= 1, f"bars={self.bars}: takes a number from 1 on")


@dataclass(frozen=True)
class OptimizerConfig:
    """Adam and its learning rate.

    Attributes:
        learning_rate: The highest rate.
        final_learning_rate: The rate to which it decays.
        warmup_steps: Steps over which it rises from nearly nothing.
        decay_steps: Steps after which it has reached the final rate; null: as many as are trained.
        gradient_clip: Gradients longer than this are shortened to it.
        feature_redraw: When attention's random features are drawn anew: below 1, the chance at each step; from 1
            on, the number of steps between.
    """

    learning_rate: float
    final_learning_rate: float
    warmup_steps: int
    decay_steps: int | None
    gradient_clip: float
    feature_redraw: float

    def __post_init__(self) -> None:
        require(self.learning_rate > 0, f"learning_rate={self.learning_rate}: takes a number above 0")
        final = self.final_learning_rate
        require(0 < final <= self.learning_rate, f"final_learning_rate={final}: takes up to learning_rate, above 0")
        require(self.warmup_steps >= 0, f"warmup_steps={self.warmup_steps}: takes a number from 0 on")
        late = self.decay_steps is None or self.decay_steps > self.warmup_steps
        require(late, f"decay_steps={self.decay_steps}: takes more than warmup_steps={self.warmup_steps}")
        require(self.gradient_clip > 0, f"gradient_clip={self.gradient_clip}: takes a number above 0")
        redraw = self.feature_redraw
        fits = redraw > 0 and (redraw < 1 or redraw == int(redraw))
        require(fits, f"feature_redraw={redraw}: takes a chance between 0 and 1, or a whole number of steps")


@dataclass(frozen=True)
class ValidationConfig:
    """How the model is judged while it trains, always on the same windows with the same noise.

    Attributes:
        every: Steps between.
        songs: How many songs of the split `valid`, from their beginning; null for all.
        draws: Draws of noise over which the loss is averaged.
        extrapolate: How far songs are followed, in trained windows: 1.5 is half as far again.
        patience: Validations without a better loss after which training stops; null for no such stop.
        sample_bars: Bars of the piece that is written at each, to `samples`; null for none.
    """

    every: int
    songs: int | None
    draws: int
    extrapolate: float
    patience: int | None
    sample_bars: int | None

    def __post_init__(self) -> None:
        for name in ("every", "songs", "draws", "patience", "sample_bars"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"{name}={value}: takes a number from 1 on")
        require(self.extrapolate >= 1, f"extrapolate={self.extrapolate}: takes a number from 1 on")


@dataclass(frozen=True)
class TrainerConfig:
    """The machine, and how long it works.

    Attributes:
        accelerator: What computes.
        devices: How many GPUs or processes on this machine; auto for all GPUs, or one process.
        num_nodes: How many machines.
        strategy: How they share the work: `single`, `ddp` (each has the model), `fsdp` (each has a part of it).
        precision: Of arithmetic. `bf16` is tried out first and refused where it does not work.
        threads: Of the CPU; null measures how many are fastest.
        max_steps: Steps to train.
        checkpoint_every: Steps between checkpoints.
        log_every: Steps between lines of the log.
        checkpoint_activations: Whether layers are computed again in the backward pass, to save memory.
        compile: Whether the feed-forward networks are compiled first.
    """

    accelerator: Literal["auto", "cpu", "gpu"]
    devices: int | Literal["auto"]
    num_nodes: int
    strategy: Literal["single", "ddp", "fsdp"]
    precision: Literal["float32", "bf16"]
    threads: int | None
    max_steps: int
    checkpoint_every: int
    log_every: int
    checkpoint_activations: bool
    compile: bool

    def __post_init__(self) -> None:
        for name in ("num_nodes", "threads", "max_steps", "checkpoint_every", "log_every"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"{name}={value}: takes a number from 1 on")
        require(self.devices == "auto" or self.devices >= 1, f"devices={self.devices}: takes a number from 1 on")
        alone = self.devices in ("auto", 1) and self.num_nodes == 1
        require(alone or self.strategy != "single", "strategy=single: is for one process; choose trainer=ddp or fsdp")


@dataclass(frozen=True)
class LoggerConfig:
    """Who is told of losses besides the table that is always written.

    Attributes:
        name: `csv` for nobody, `tensorboard`, or `wandb`.
        project: The project on W&B.
        mode: `offline` writes to the run's folder and needs no account.
    """

    name: Literal["csv", "tensorboard", "wandb"]
    project: str
    mode: Literal["online", "offline"]


@dataclass(frozen=True)
class TrainConfig:
    """A run.

    Attributes:
        model: The keys of the model's size, as `PerformerConfig` takes them.
        pe: The keys of its positional encoding.
        data: Where songs come from.
        optimizer: Adam and its rate.
        validation: How it is judged.
        trainer: The machine.
        logger: Who is told.
        batch_size: Windows in a step, over all processes and parts.
        accumulate: Parts in which a process takes its share of a batch, one after the other.
        seed: Of everything.
        run_dir: The folder of the run.
        resume: `auto` goes on from the last checkpoint of the folder, if there is one.
        overwrite: Whether a run that is there is thrown away.
    """

    model: dict[str, Any]
    pe: dict[str, Any]
    data: DataConfig
    optimizer: OptimizerConfig
    validation: ValidationConfig
    trainer: TrainerConfig
    logger: LoggerConfig
    batch_size: int
    accumulate: int
    seed: int
    run_dir: Path
    resume: Literal["auto"] | None
    overwrite: bool

    def __post_init__(self) -> None:
        require(self.batch_size >= 1, f"batch_size={self.batch_size}: takes a number from 1 on")
        fits = self.accumulate >= 1 and self.batch_size % self.accumulate == 0
        require(fits, f"accumulate={self.accumulate}: takes a number that divides batch_size={self.batch_size}")
        require(0 <= self.seed < 2**63, f"seed={self.seed}: takes a number from 0 to 2^63 - 1")
        either = not (self.overwrite and self.resume)
        require(either, "overwrite=true: throws a run away and resume=auto goes on with it; choose one")
