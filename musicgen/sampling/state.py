"""A piece that can be gone on with, on disk: the model's state at a bar line and the tokens up to there.

The hard choice: the file names the model that it belongs to by the hash of its weights. The numbers of a state mean
nothing to another model, and would give music all the same.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from musicgen.errors import UserError
from musicgen.model import State
from musicgen.sampling.dialect import Dialect
from musicgen.sampling.sampler import Beginning, bar_ends

FORMAT = 1


def save_beginning(beginning: Beginning, path: Path, sha256: str) -> None:
    """Write where a piece can be taken up again to a safetensors file, whole or not at all.

    Args:
        beginning: What to write.
        path: Where to.
        sha256: Of the weights of the model.
    """
    about = {
        "format": FORMAT,
        "model": sha256,
        "likelihood": list(beginning.likelihood),
        "pressure": list(beginning.pressure),
        "ends": list(beginning.ends),
        "prompt_bars": beginning.prompt_bars,
        "setting": dict(beginning.setting),
        "variation": beginning.variation,
    }
    tokens = torch.tensor(beginning.tokens, dtype=torch.int32)
    beginning.state.save(path, {"tokens": tokens}, {"piece": json.dumps(about)})


def load_beginning(path: Path | str, sha256: str, dialect: Dialect) -> Beginning:
    """Read what `save_beginning` wrote.

    Args:
        path: The file.
        sha256: Of the weights of the model that is to go on.
        dialect: Its token language.

    Raises:
        UserError: There is no such file, it is something else or damaged, or it belongs to another model.
    """
    state = State.load(path)
    try:
        with safe_open(path, "pt") as file:
            tokens = file.get_tensor("tokens").tolist()
            about = json.loads((file.metadata() or {})["piece"])
        beginning = Beginning(
            tuple(int(token) for token in tokens),
            state,
            tuple(int(end) for end in about["ends"]),
            tuple(float(nats) for nats in about["likelihood"]),
            tuple(float(share) for share in about["pressure"]),
            int(about["prompt_bars"]),
            dict(about["setting"]),
            int(about["variation"]),
        )
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"from_state={path}: not the state of a piece, or a damaged one ({error})") from None
    try:
        _check(beginning, dialect)
    except ValueError as error:
        raise UserError(f"from_state={path}: a damaged state ({error})") from None
    if about.get("format") != FORMAT:
        raise UserError(f"from_state={path}: not the state of a piece of format {FORMAT}")
    if about.get("model") != sha256:
        raise UserError(f"from_state={path}: belongs to another model; give the one that wrote the piece")
    return beginning


def _check(beginning: Beginning, dialect: Dialect) -> None:
    """See that what a file says fits together.

    Raises:
        ValueError: It does not.
    """
    size = len(dialect.language.vocabulary)
    if not beginning.tokens or not all(0 <= token < size for token in beginning.tokens):
        raise ValueError("its tokens are not those of the model")
    if beginning.tokens[0] != dialect.first:
        raise ValueError("its tokens do not begin a piece")
    ends = bar_ends(dialect.complete_bars(beginning.tokens))
    sizes = {len(beginning.ends), len(beginning.likelihood), len(beginning.pressure)}
    # A prompt of grooves may end before its last bar line.
    if beginning.ends != ends or sizes != {len(ends)} or not 0 <= beginning.prompt_bars <= len(ends) + 1:
        raise ValueError("its bars do not fit its tokens")
    memories = [layer.memory for layer in beginning.state.layers]
    sums = [*beginning.likelihood, *beginning.pressure]
    if not np.isfinite(sums).all() or not all(bool(torch.isfinite(memory).all()) for memory in memories):
        raise ValueError("it holds numbers that are not finite")
