"""What a classifier is: the one description that is made of a task, sizes and a positional encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from musicgen.arena.dataset import About
from musicgen.arena.encoding import encoding_class
from musicgen.arena.options import SizeConfig
from musicgen.errors import UserError
from musicgen.model import positions
from musicgen.model.config import PerformerConfig
from musicgen.spe import NoiseKind


@dataclass(frozen=True)
class ClassifierConfig:
    """A `SequenceClassifier`, complete.

    Attributes:
        about: The task.
        length: Most tokens of a sequence, without CLS.
        is_paired: Whether an example is a pair of sequences.
    """

    about: About
    length: int
    is_paired: bool
    num_layers: int
    num_heads: int
    d_model: int
    d_qkv: int
    d_ff: int
    dropout: float
    attention: Literal["favor", "relu", "softmax"]
    num_features: int
    pooling: Literal["cls", "mean", "first"]
    learnt_positions: bool
    axes: int
    published: bool
    pe: str
    num_realizations: int
    num_sines: int
    kernel_size: int
    noise: NoiseKind
    gated: bool
    shared: bool

    def __post_init__(self) -> None:
        if self.axes == 2 and self.side is None:
            raise UserError(f"model.axes=2: is for images; sequences of {self.about.task} have one axis")
        if self.axes == 2 and self.length != (self.side or 0) ** 2:
            raise UserError(f"model.axes=2: needs whole images; use task.length={(self.side or 0) ** 2}")
        encoding_class(self.pe).check(self)

    @classmethod
    def of(
        cls, about: About, is_paired: bool, length: int, size: SizeConfig, encoding: dict[str, Any]
    ) -> ClassifierConfig:
        """A classifier from its parts.

        Args:
            about: The task.
            is_paired: Whether its examples are pairs.
            length: Most tokens of a sequence.
            size: The options of `model`.
            encoding: The keys of the group `pe`, as for a language model.

        Raises:
            UserError: They do not go together.
        """
        width = size.d_qkv or size.d_model
        shared = {"num_heads": size.num_heads, "num_layers": size.num_layers, "d_model": width}
        pe = PerformerConfig.from_groups(1, shared, encoding, "pe")
        rotated = positions.encoding_class(pe.pe).default_rotated or 0.0
        if pe.positions != "token" or pe.learn_frequencies or pe.rotated_share != rotated:
            raise UserError(
                f"pe={pe.pe}: classifiers count tokens; musical time and partial or learnt rotation are for music"
            )
        sizes = {name: getattr(size, name) for name in size.__dataclass_fields__}
        kinds = {
            name: getattr(pe, name)
            for name in ("pe", "num_realizations", "num_sines", "kernel_size", "noise", "gated", "shared")
        }
        return cls(about, length, is_paired, **{**sizes, "d_qkv": width}, **kinds)

    @property
    def side(self) -> int | None:
        """The side of an image; None if a sequence is no image."""
        return self.about.side

    @property
    def first_token(self) -> int:
        """The id of the first token: images have no padding, in other tasks 0 is padding."""
        return 1 if self.side is None else 0

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""
        return self.about.tokens + self.first_token

    @property
    def places(self) -> int:
        """Most tokens of a sequence, CLS included."""
        return self.length + (self.pooling == "cls")

    @property
    def head_features(self) -> int:
        """D: features of a head."""
        return self.d_qkv // self.num_heads

    @property
    def is_stochastic(self) -> bool:
        """Whether positions are encoded by noise."""
        return encoding_class(self.pe).is_stochastic

    @property
    def encoded_features(self) -> int:
        """E: features of encoded queries and keys."""
        return self.num_realizations if self.is_stochastic else self.head_features
