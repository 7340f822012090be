"""`musicgen describe`: how large a model is, and what it is made of, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from musicgen.cli.compose import configure, performer_config

if TYPE_CHECKING:
    from musicgen.model import PerformerConfig

ABOUT = """\
usage: musicgen describe [group=option ...] [key=value ...]

Prints how many parameters a model has and where, the size of its weights, and the size of what it remembers
of a piece while it streams.

example: musicgen describe model=paper_24l pe=sine model.num_layers=12 vocab_size=333
"""


def run(arguments: list[str]) -> int:
    """Print the table."""
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
    return "\n".join([*lines, "", *words])


def describe_encoding(config: PerformerConfig) -> str:
    """The positional encoding in words."""
    if not config.is_stochastic:
        return {
            "none": "not encoded",
            "ape": "sinusoids added to the tokens",
            "rope": "queries and keys rotated by angles proportional to position",
        }[config.pe]
    kernel = {
        "sine": f"kernels of {config.num_sines} sines",
        "conv": f"kernels that reach {config.kernel_size} tokens",
    }[config.pe]
    return ", ".join(
        [
            f"SPE, {kernel}",
            f"{config.num_realizations} realisations of {config.noise} noise",
            "a gate in each layer" if config.gated else "no gates",
            "one code for all layers" if config.shared else "one code for each layer",
        ]
    )


def describe_decay(config: PerformerConfig) -> str:
    """The decay in words."""
    if config.decay == "none":
        return "none"
    first, last = (1 - 2**-exponent for exponent in config.decay_exponents)
    return f"{config.decay}, from {first:.5g} a token in the first head to {last:.5g} in the last"
