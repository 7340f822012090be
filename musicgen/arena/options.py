"""The options of a classifier's training. Nothing here needs torch, so a mistyped key is reported at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from musicgen.options import option, section
from musicgen.training.config import OptimizerConfig, RunConfig, ValidationConfig, require

TaskName = Literal["listops_tiny", "listops", "listops_paper", "text", "retrieval", "image", "image16"]


@dataclass(frozen=True)
class TaskConfig:
    """Which examples are classified."""

    name: TaskName = option("listops_tiny", help="what is classified")
    folder: Path | None = option(like="DIR", help="its data from `musicgen arena prepare`; ListOps can do without")
    length: int = option(63, least=1, most=1 << 20, help="tokens of a sequence that are read; the rest is cut off")
    train: int | None = option(least=2, help="training examples to generate (ListOps without a folder)")
    valid: int | None = option(least=1, help="validation examples to generate")
    test: int | None = option(least=1, help="test examples to generate")
    seed: int = option(0, least=0, most=2**63 - 1, help="seed of generated examples; the same for all runs to compare")

    def __post_init__(self) -> None:
        given = (self.train, self.valid, self.test) != (None, None, None)
        require(
            not (given and self.folder),
            f"folder={self.folder}: has its examples; train, valid and test are to generate",
        )


@dataclass(frozen=True)
class SizeConfig:
    """Sizes and choices of a classifier, except its positional encoding."""

    num_layers: int = option(2, least=1, most=256, help="layers, each with attention and a feed-forward network")
    num_heads: int = option(4, least=1, most=256, help="attention heads of a layer")
    d_model: int = option(64, least=2, most=1 << 16, help="width of the residual stream")
    d_qkv: int | None = option(least=1, most=1 << 16, help="width of queries, keys and values; d_model if not given")
    d_ff: int = option(128, least=2, most=1 << 16, help="width inside the feed-forward layers and the head")
    dropout: float = option(0.1, least=0, most=0.9, help="share of numbers dropped in training")
    attention: Literal["favor", "relu", "softmax"] = option(
        "favor", help="kernel of attention: favor (softmax, by random features), relu, or softmax, which is quadratic"
    )
    num_features: int = option(64, least=2, most=1 << 16, help="random features of a head (favor only; even)")
    pooling: Literal["cls", "mean", "first"] = option(
        "cls", help="what is classified: a token that is put in front, the mean of all tokens, or the first token"
    )
    learnt_positions: bool = option(False, help="whether ape is a learnt vector for each position, not sinusoids")
    axes: int = option(1, least=1, most=2, help="axes of a position; 2 for images: row and column")
    published: bool = option(
        False,
        help="true for the published quirks: attention reads padding, in images it skips black pixels, relu adds 0.001",
    )

    def __post_init__(self) -> None:
        width = self.d_qkv or self.d_model
        require(width % self.num_heads == 0, f"num_heads={self.num_heads}: must divide the width {width}")
        require(self.num_features % 2 == 0, f"num_features={self.num_features}: takes an even number")


@dataclass(frozen=True)
class ArenaOptimizer(OptimizerConfig):
    """Adam, its learning rate, and weight decay."""

    schedule: Literal["cosine", "rsqrt"] = option(
        "cosine", help="how the rate falls after its rise: half a cosine, or with the root of the step (as published)"
    )
    weight_decay: float = option(
        0.0, least=0, most=1, help="share of each weight, times the rate, that a step takes away"
    )
    beta2: float = option(0.999, least=0, most=0.99999, help="Adam's memory of squared gradients")


@dataclass(frozen=True)
class ExampleValidation(ValidationConfig):
    """Validation on examples that are not trained on, and never on the test set."""

    examples: int | None = option(1000, least=1, help="how many examples of the split valid; null for all")


@dataclass(frozen=True)
class ArenaConfig(RunConfig):
    """A run of a classifier. `pe` holds the keys of the group `pe`."""

    task: TaskConfig = section(TaskConfig, "the examples")
    model: SizeConfig = section(SizeConfig, "the classifier")
    pe: dict[str, Any] = field(default_factory=dict)
    optimizer: ArenaOptimizer = section(ArenaOptimizer, "Adam and its learning rate")
    validation: ExampleValidation = section(ExampleValidation, "validation")
