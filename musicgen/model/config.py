"""What a Performer is made of, as plain data: the one description that configs, bundles and code share."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args, get_type_hints

from musicgen.attention import FeatureMapName
from musicgen.errors import UserError
from musicgen.spe import NoiseKind

PositionalEncodingName = Literal["none", "ape", "sine", "conv", "rope"]
DecayKind = Literal["none", "fixed", "learnt"]

LARGEST = 1 << 20  # no dimension is larger: a mistyped or hostile config must not ask for all memory


@dataclasses.dataclass(frozen=True)
class PerformerConfig:
    """Sizes and choices of a `PerformerLM`. The defaults are the paper's gated sine model."""

    vocab_size: int
    """Number of token ids."""
    num_layers: int = 24
    num_heads: int = 8
    d_model: int = 512
    """Width of the residual stream; each head has d_model / num_heads features."""
    d_ff: int = 2048
    """Width inside the feed-forward layers."""
    dropout: float = 0.1
    feature_map: FeatureMapName = "favor"
    num_features: int = 128
    """Random features of a head (favor only; even)."""
    pe: PositionalEncodingName = "sine"
    """Positional encoding: none, ape (added sinusoids), sine and conv (SPE), rope (rotated queries and keys)."""
    num_realizations: int = 64
    """R: noise realisations of sine and conv, and the dimension of encoded queries and keys."""
    num_sines: int = 5
    """K: sines of a sine kernel."""
    kernel_size: int = 128
    """Filter length of conv, in tokens."""
    noise: NoiseKind = "gaussian"
    """Noise of sine and conv: gaussian, orthogonal, or (sine with enough realisations) exact."""
    gated: bool = True
    """Whether each layer mixes positional and non-positional attention by a learnt gate (sine, conv)."""
    shared: bool = True
    """Whether all layers share one code (sine, conv), or have one each."""
    decay: DecayKind = "none"
    """Per-head exponential decay of attention, which joins any positional encoding."""
    decay_exponents: tuple[float, float] = (5.0, 12.0)
    """γ of the first and of the last head are 1 − 2^(−exponent)."""
    weight_std: float = 0.01
    """Standard deviation of initial weights."""
    embedding_std: float | None = None
    """Standard deviation of initial token embeddings; None means d_model^(−½), which added sinusoids do not drown."""

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            choices = get_args(hints[field.name])
            if choices and isinstance(choices[0], str) and value not in choices:
                raise UserError(f"{field.name} must be one of {', '.join(choices)}, not {value!r}")
            if hints[field.name] is int and not (_is_whole(value) and 1 <= value <= LARGEST):
                raise UserError(f"{field.name} must be a whole number from 1 to {LARGEST}, not {value!r}")
            if hints[field.name] is bool and not isinstance(value, bool):
                raise UserError(f"{field.name} must be true or false, not {value!r}")
        if self.d_model % self.num_heads:
            raise UserError(f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads})")
        if self.pe == "rope" and self.head_features % 2:
            raise UserError(f"rope needs an even number of features a head, not {self.head_features}")
        if self.pe == "ape" and self.d_model % 2:
            raise UserError(f"ape needs an even d_model, not {self.d_model}")
        if self.feature_map == "favor" and self.num_features % 2:
            raise UserError(f"num_features must be even with favor, not {self.num_features}")
        if not (_is_number(self.dropout) and 0 <= self.dropout < 1):
            raise UserError(f"dropout must be at least 0 and below 1, not {self.dropout!r}")
        for name in ("weight_std", "embedding_std"):
            value = getattr(self, name)
            if not ((_is_number(value) and 0 < value <= 10) or (name == "embedding_std" and value is None)):
                raise UserError(f"{name} must be above 0 and at most 10, not {value!r}")
        self._check_decay()
        if self.noise == "exact":
            self._check_exact()

    def _check_decay(self) -> None:
        exponents = self.decay_exponents
        if not (isinstance(exponents, (tuple, list)) and len(exponents) == 2 and all(map(_is_number, exponents))):
            raise UserError(f"decay_exponents must be two numbers, not {exponents!r}")
        if not all(0 < exponent <= 30 for exponent in exponents):
            raise UserError(f"decay_exponents must be above 0 and at most 30, not {exponents!r}")
        object.__setattr__(self, "decay_exponents", tuple(map(float, exponents)))

    def _check_exact(self) -> None:
        if self.pe != "sine":
            raise UserError(f"noise=exact is for pe=sine, not pe={self.pe}")
        needed = (2 * self.num_sines + self.gated) * self.head_features
        if self.num_realizations < needed:
            raise UserError(f"noise=exact needs num_realizations of at least {needed}, not {self.num_realizations}")

    @classmethod
    def paper(
        cls,
        pe: Literal["ape", "sine", "conv"] = "sine",
        gated: bool = True,
        vocab_size: int = 333,
    ) -> PerformerConfig:
        """The paper's 24-layer pop-piano models."""
        return cls(
            vocab_size=vocab_size,
            pe=pe,
            gated=gated,
            kernel_size=128 if gated else 512,
            embedding_std=0.01,
        )

    @property
    def head_features(self) -> int:
        """D: features of a head."""
        return self.d_model // self.num_heads

    @property
    def is_stochastic(self) -> bool:
        """Whether positions are encoded by noise."""
        return self.pe in ("sine", "conv")

    @classmethod
    def from_groups(cls, vocab_size: Any, size: Any, encoding: Any, source: str) -> PerformerConfig:
        """Read a config as config files divide it, of which `pe.name` says what is called `pe` here.

        Args:
            vocab_size: Number of tokens.
            size: The keys of the group `model`.
            encoding: The keys of the group `pe`.
            source: Where they come from, for errors.

        Raises:
            UserError: As for `from_dict`.
        """
        for group, values in (("model", size), ("pe", encoding)):
            if not isinstance(values, dict):
                raise UserError(f"{group}: the chosen config file must hold lines of the form `key: value`")
        named = {"pe" if key == "name" else key: value for key, value in encoding.items()}
        return cls.from_dict({"vocab_size": vocab_size, **size, "pe": None, **named}, source)

    @classmethod
    def from_dict(cls, values: Any, source: str) -> PerformerConfig:
        """A config from plain data of unknown origin; `source` is what an error sentence calls it."""
        if not isinstance(values, dict):
            raise UserError(f"{source}: expected an object with the keys of a model config")
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [str(key) for key in values if key not in known]
        if unknown:
            raise UserError(f"{source}: unknown key {unknown[0]!r} (known: {', '.join(known)})")
        if "vocab_size" not in values:
            raise UserError(f"{source}: the key 'vocab_size' is missing")
        try:
            return cls(**values)
        except UserError as error:
            raise UserError(f"{source}: {error}") from None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
