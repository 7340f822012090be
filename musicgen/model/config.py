"""What a Performer is made of, as plain data: the one description that configs, bundles and code share."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args, get_type_hints

from musicgen.attention import FeatureMapName
from musicgen.errors import UserError
from musicgen.model.positions import encoding_class
from musicgen.options import option
from musicgen.spe import NoiseKind

DecayKind = Literal["none", "fixed", "learnt"]
PositionKind = Literal["token", "time"]

LARGEST = 1 << 20  # limit of every dimension: a mistyped or hostile config must not use all memory
MOST = {"num_layers": 1024, "num_heads": 1024}  # limits of what takes time to build, whatever its size


@dataclasses.dataclass(frozen=True)
class PerformerConfig:
    """Sizes and choices of a `PerformerLM`. The defaults are the paper's gated sine model."""

    vocab_size: int
    """Number of token ids."""
    num_layers: int = option(24, help="layers, each with attention and a feed-forward network")
    num_heads: int = option(8, help="attention heads of a layer; must divide d_model")
    d_model: int = option(512, help="width of the residual stream; each head has d_model / num_heads features")
    d_ff: int = option(2048, help="width inside the feed-forward layers")
    dropout: float = option(0.1, help="share of numbers dropped in training, after the embeddings and in every layer")
    feature_map: FeatureMapName = option(
        "favor", help="kernel of attention: favor (softmax, by random features), relu or elu"
    )
    attention: Literal["linear", "delta"] = option(
        "linear",
        help="how attention remembers: linear adds every value to its memory (the paper's); delta replaces what it "
        "holds under a key, and learns how strongly to write and to forget; feature_map is then not used",
    )
    num_features: int = option(128, help="random features of a head (favor only; even)")
    pe: str = option(
        "sine",
        help="positional encoding: none, ape (added sinusoids), sine and conv (SPE), rope (rotated queries and keys)",
    )
    positions: PositionKind = option(
        "token",
        help="what a position is: the index of the token, or the musical time that the caller gives with each token",
    )
    time_resolution: int = option(
        12,
        help="positions in a beat, for encoding and decay by time; 12 gives kernels about the scale of tokens",
    )
    rotated: float | None = option(
        None, help="share of each head's features that is rotated; null: all with rope and none with sine and conv"
    )
    shortest_beats: float = option(1 / 3, help="shortest period of a rotation by time, in beats")
    longest_bars: float = option(2.0, help="longest period of a rotation by time, in bars of four beats")
    learn_frequencies: bool = option(False, help="whether the frequencies of the rotation are learnt")
    num_realizations: int = option(
        64, help="R: noise realisations of sine and conv, and the dimension of encoded queries and keys"
    )
    num_sines: int = option(5, help="K: sines of a sine kernel")
    kernel_size: int = option(128, help="filter length of conv, in tokens")
    noise: NoiseKind = option(
        "gaussian", help="noise of sine and conv: gaussian, orthogonal, or (sine with enough realisations) exact"
    )
    gated: bool = option(
        True, help="whether each layer mixes positional and non-positional attention by a learnt gate (sine, conv)"
    )
    shared: bool = option(True, help="whether all layers share one code (sine, conv), or have one each")
    decay: DecayKind = option(
        "none", help="per-head exponential decay of attention, which joins any positional encoding"
    )
    decay_exponents: tuple[float, float] = option(
        (5.0, 12.0), help="γ of the first and of the last head are 1 − 2^(−exponent)"
    )
    decay_positions: PositionKind = option(
        "token", help="whether attention decays with each token, or with each position in musical time that passes"
    )
    short_conv: int = option(
        0, help="tokens that a short causal convolution of queries, keys and values mixes; 0 means no convolution"
    )
    norm: Literal["post", "pre"] = option(
        "post",
        help="whether layers normalise after they add (the paper's), or before they read (and once more at the end)",
    )
    gated_ff: bool = option(
        False, help="whether feed-forward layers are gated (SwiGLU), with as many parameters as without"
    )
    head_norm: bool = option(False, help="whether the output of each attention head is normalised")
    output_gate: bool = option(False, help="whether a gate that reads the token scales the output of attention")
    weight_std: float = option(0.01, help="standard deviation of initial weights")
    embedding_std: float | None = option(
        None,
        help="standard deviation of initial token embeddings; null: d_model^(−½), which added sinusoids do not drown",
    )

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            choices = get_args(hints[field.name])
            if choices and isinstance(choices[0], str) and value not in choices:
                raise UserError(f"{field.name} must be one of {', '.join(choices)}, not {value!r}")
            least = 0 if field.name == "short_conv" else 1
            most = MOST.get(field.name, LARGEST)
            if hints[field.name] is int and not (_is_whole(value) and least <= value <= most):
                raise UserError(f"{field.name} must be a whole number from {least} to {most}, not {value!r}")
            if hints[field.name] is bool and not isinstance(value, bool):
                raise UserError(f"{field.name} must be true or false, not {value!r}")
        if self.d_model % self.num_heads:
            raise UserError(f"d_model ({self.d_model}) must be a multiple of num_heads ({self.num_heads})")
        if self.feature_map == "favor" and self.num_features % 2:
            raise UserError(f"num_features must be even with favor, not {self.num_features}")
        if not (_is_number(self.dropout) and 0 <= self.dropout < 1):
            raise UserError(f"dropout must be at least 0 and below 1, not {self.dropout!r}")
        for name in ("weight_std", "embedding_std"):
            value = getattr(self, name)
            if not ((_is_number(value) and 0 < value <= 10) or (name == "embedding_std" and value is None)):
                raise UserError(f"{name} must be above 0 and at most 10, not {value!r}")
        for name in ("shortest_beats", "longest_bars"):
            value = getattr(self, name)
            if not (_is_number(value) and 0 < value <= LARGEST):
                raise UserError(f"{name} must be above 0 and at most {LARGEST}, not {value!r}")
        if self.rotated is not None and not (_is_number(self.rotated) and 0 <= self.rotated <= 1):
            raise UserError(f"rotated must be from 0 to 1, not {self.rotated!r}")
        self._check_decay()
        encoding_class(self.pe).check(self)

    def _check_decay(self) -> None:
        exponents = self.decay_exponents
        if not (isinstance(exponents, (tuple, list)) and len(exponents) == 2 and all(map(_is_number, exponents))):
            raise UserError(f"decay_exponents must be two numbers, not {exponents!r}")
        if not all(0 < exponent <= 30 for exponent in exponents):
            raise UserError(f"decay_exponents must be above 0 and at most 30, not {exponents!r}")
        object.__setattr__(self, "decay_exponents", tuple(map(float, exponents)))

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
        return encoding_class(self.pe).is_stochastic

    @property
    def has_noise(self) -> bool:
        """Whether two draws differ: by the codes of positions, or by the random features of attention."""
        return self.is_stochastic or (self.attention == "linear" and self.feature_map == "favor")

    @property
    def rotated_share(self) -> float:
        """Share of each head's features that is rotated."""
        return (encoding_class(self.pe).default_rotated or 0.0) if self.rotated is None else self.rotated

    @property
    def needs_times(self) -> bool:
        """Whether the model needs the musical time of every token."""
        decays = self.decay != "none" and self.decay_positions == "time"
        return decays or (self.positions == "time" and encoding_class(self.pe).knows_positions)

    def encoded_features(self, num_realizations: int | None = None) -> int:
        """E: features of encoded queries and keys; with SPE it is the R of the draw."""
        return (num_realizations or self.num_realizations) if self.is_stochastic else self.head_features

    def attention_features(self, num_realizations: int | None = None) -> int:
        """F: features of queries and keys in attention, as the feature map makes them; with the delta rule E."""
        if self.attention == "delta":
            return self.encoded_features(num_realizations)
        return self.num_features if self.feature_map == "favor" else self.encoded_features(num_realizations)

    @property
    def memory_values(self) -> int:
        """Numbers that the memory of a head holds for each feature: its values and, without the delta rule, a sum."""
        return self.head_features + (self.attention == "linear")

    @classmethod
    def from_groups(cls, vocab_size: Any, size: Any, encoding: Any, source: str) -> PerformerConfig:
        """Build a config from the groups of the config files; `pe.name` there is `pe` here.

        Args:
            vocab_size: Number of tokens.
            size: The keys of the group `model`.
            encoding: The keys of the group `pe`.
            source: Where they come from, for error messages.

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
        """A config from plain data of unknown origin; `source` names it in error messages."""
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
