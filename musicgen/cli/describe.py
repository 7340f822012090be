"""`musicgen describe`: how large a model is, and what it is made of, in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from musicgen.options import option

if TYPE_CHECKING:
    from musicgen.model import PerformerConfig

ABOUT = """\
usage: musicgen describe [group=option ...] [key=value ...]

Prints how many parameters a model has and where, the size of its weights, and the size of what it remembers
of a piece while it streams.

{keys}

{groups}

`musicgen describe --cfg` prints every key and its value.

example: musicgen describe model=paper_24l pe=sine model.num_layers=12 vocab_size=333
"""


@dataclass(frozen=True)
class DescribeConfig:
    """A model. `model` and `pe` hold the keys of `PerformerConfig`, which checks them."""

    model: dict[str, Any] = field(default_factory=dict)
    pe: dict[str, Any] = field(default_factory=dict)
    vocab_size: int = option(333, least=1, help="number of token ids; the paper's pop-piano vocabulary has 333")


def run(arguments: list[str]) -> int:
    """Print the table."""
    from musicgen.cli.config import configure, performer_config

    composed = configure("describe", ABOUT, arguments)
    if composed is not None:
        config = performer_config(composed)
        print(table(config))
    return 0


def table(config: PerformerConfig) -> str:
    """Sizes of a model, aligned."""
    from musicgen.model.size import FLOAT, count_parameters, state_bytes

    counts = count_parameters(config)
    total = sum(counts.values())
    rows = [
        ("parameters", f"{total:,}", ""),
        *((f"  {part}", f"{count:,}", "") for part, count in counts.items()),
        ("weights", f"{FLOAT * total / 1e6:,.1f} MB", "float32"),
        ("streaming state", f"{state_bytes(config) / 1e6:,.2f} MB", "a piece, at any length"),
    ]
    left, right = (max(len(row[column]) for row in rows) for column in (0, 1))
    lines = [f"{name:{left}}  {value:>{right}}  {note}".rstrip() for name, value, note in rows]
    words = [f"positions: {describe_encoding(config)}", f"decay: {describe_decay(config)}"]
    if layer := describe_layer(config):
        words.append(f"layer: {layer}")
    return "\n".join([*lines, "", *words])


def describe_encoding(config: PerformerConfig) -> str:
    """The positional encoding in words."""
    from musicgen.model.positions import encoding_class

    words = encoding_class(config.pe).describe(config)
    return (
        words
        if config.positions == "token"
        else f"{words}; in musical time, {config.time_resolution} positions per beat"
    )


def describe_decay(config: PerformerConfig) -> str:
    """The decay in words."""
    if config.decay == "none":
        return "none"
    first, last = (1 - 2**-exponent for exponent in config.decay_exponents)
    step = "a token" if config.decay_positions == "token" else f"in 1/{config.time_resolution} of a beat"
    return f"{config.decay}, from {first:.5g} {step} in the first head to {last:.5g} in the last"


def describe_layer(config: PerformerConfig) -> str:
    """Where a layer differs from the paper's, in words; empty if it does not."""
    words = [
        (config.short_conv, f"a convolution of {config.short_conv} tokens on queries, keys and values"),
        (config.norm == "pre", "normalised before attention and feed-forward"),
        (config.gated_ff, "a gated feed-forward"),
        (config.head_norm, "normalised heads"),
        (config.output_gate, "a gate on the output of attention"),
    ]
    return ", ".join(text for chosen, text in words if chosen)
