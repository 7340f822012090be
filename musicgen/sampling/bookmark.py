"""A place in a piece where sampling can continue: the tokens so far and the model's state, in memory and on disk.

Design note: the file names its model by the hash of the weights. A state has no meaning for another model, which
would still write music from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.inputs import conform, parse_json
from musicgen.languages.constraints import Constraints
from musicgen.languages.language import Language
from musicgen.midi.score import fault_of
from musicgen.model import PerformerLM, State
from musicgen.model.tensors import open_tensors, read_about
from musicgen.sampling.tempo_changes import rendering_of

FORMAT = 1
PIECE = {
    "tokens": [int],
    "format": FORMAT,
    "model": str,
    "likelihood": [float],
    "pressure": [float],
    "ends": [int],
    "prompt_bars": int,
    "setting": dict,
    "variation": int,
}
"""The shape of what a file says about its piece."""
LATEST = 1e7
"""The last beat at which a piece can be continued: two months of music."""


@dataclass(frozen=True)
class Bookmark:
    """A piece up to some place.

    Attributes:
        tokens: The tokens so far. The model has not read the last one yet.
        state: The model's state after all other tokens.
        ends: How many tokens there were when each bar was complete.
        likelihood: Log-likelihood of the tokens of each complete bar, in nats.
        masked_probability: How much probability masks removed, summed over the tokens of each complete bar.
        prompt_bars: How many bars were given, not sampled.
        setting: What else comes from a prompt: see `Prompt`. Changes of tempo are noted there too.
        variation: Which variation of its seed it is.
    """

    tokens: Sequence[int]
    state: State = field(repr=False)
    ends: Sequence[int] = ()
    likelihood: Sequence[float] = ()
    masked_probability: Sequence[float] = ()
    prompt_bars: int = 0
    setting: Mapping[str, Any] = field(default_factory=dict)
    variation: int = 0


def bar_ends(complete: NDArray[np.int64]) -> tuple[int, ...]:
    """How many tokens there were when each bar was complete, from how many bars were complete after each token."""
    return tuple((np.searchsorted(complete, np.arange(1, int(complete[-1]) + 1)) + 1).tolist())


def save_bookmark(bookmark: Bookmark, path: Path, sha256: str) -> None:
    """Write a bookmark to a safetensors file, completely or not at all.

    Args:
        bookmark: What to write.
        path: The file.
        sha256: Hash of the model's weights.
    """
    about = {
        "format": FORMAT,
        "model": sha256,
        "likelihood": list(bookmark.likelihood),
        "pressure": list(bookmark.masked_probability),
        "ends": list(bookmark.ends),
        "prompt_bars": bookmark.prompt_bars,
        "setting": dict(bookmark.setting),
        "variation": bookmark.variation,
    }
    tokens = torch.tensor(bookmark.tokens, dtype=torch.int32)
    bookmark.state.save(path, {"tokens": tokens}, {"piece": json.dumps(about)})


def load_bookmark(path: Path | str, sha256: str, language: Language, model: PerformerLM) -> Bookmark:
    """Read what `save_bookmark` wrote.

    Args:
        path: The file.
        sha256: Hash of the weights of the model that will continue.
        language: Its token language.
        model: The model.

    Raises:
        UserError: The file does not exist, is damaged or is something else, or belongs to another model.
    """
    state = State.load(path)
    try:
        with open_tensors(path) as file:
            tokens = file.get_tensor("tokens").tolist()
            about = parse_json((file.metadata() or {}).get("piece", ""))
        conform({"tokens": tokens, **about}, PIECE)
    except (OSError, ValueError) as error:
        raise UserError(f"from_state={path}: not the state of a piece, or a damaged one ({error})") from None
    if about["model"] != sha256:
        raise UserError(f"from_state={path}: belongs to another model; give the one that wrote the piece")
    ends, likelihood, pressure = (tuple(about[name]) for name in ("ends", "likelihood", "pressure"))
    rest = (about["prompt_bars"], about["setting"], about["variation"])
    bookmark = Bookmark(tuple(map(int, tokens)), state, ends, likelihood, pressure, *rest)
    try:
        _check(bookmark, language, model)
    except ValueError as error:
        raise UserError(f"from_state={path}: a damaged state ({error})") from None
    return bookmark


def is_bookmark(path: Path) -> bool:
    """Whether a file is the state of a piece. Its tensors are not read."""
    return {"draw", "piece"} <= read_about(path).keys()


def check_bookmark(bookmark: Bookmark, model: PerformerLM, language: Language) -> None:
    """Check that a bookmark in memory is sound, and that a model, or another copy of it, made it.

    Raises:
        UserError: It is not, or another model did.
    """
    if not isinstance(bookmark.state, State):
        raise UserError("from_state: a damaged bookmark (it has no state of the model)")
    try:
        _check(bookmark, language, model)
    except ValueError as error:
        raise UserError(f"from_state: a damaged bookmark ({error})") from None
    known = bookmark.state.realization
    if known is None or known.model is model:  # a bookmark from a file was checked when it was read
        return
    ours, theirs = model.state_dict(), known.model.state_dict()
    if known.model.config != model.config or not all(torch.equal(ours[name], theirs[name]) for name in ours):
        raise UserError("from_state: this bookmark belongs to another model; give the one that wrote the piece")


def _check(bookmark: Bookmark, language: Language, model: PerformerLM) -> None:
    """Check that the parts of a bookmark fit together, and that they fit a model.

    Raises:
        ValueError: They do not.
    """
    size = len(language.vocabulary)
    if not bookmark.tokens or not all(0 <= token < size for token in bookmark.tokens):
        raise ValueError("its tokens are not those of the model")
    if bookmark.tokens[0] != language.first:
        raise ValueError("its tokens do not begin a piece")
    ends = bar_ends(language.complete_bars(bookmark.tokens))
    sizes = {len(bookmark.ends), len(bookmark.likelihood), len(bookmark.masked_probability)}
    # A prompt of grooves may end before its last bar line.
    if bookmark.ends != ends or sizes != {len(ends)} or not 0 <= bookmark.prompt_bars <= len(ends) + 1:
        raise ValueError("its bars do not fit its tokens")
    _check_setting(bookmark, language)
    if not np.isfinite([*bookmark.likelihood, *bookmark.masked_probability]).all():
        raise ValueError("it holds numbers that are not finite")
    state, config = bookmark.state, model.config
    draw = state.draw
    if (draw.num_realizations, draw.noise) != (config.num_realizations, config.noise):
        raise ValueError("its noise is not that of the model")
    if state.positions != (len(bookmark.tokens) - 1,) or len(state.layers) != config.num_layers:
        raise ValueError("its positions or its layers are not those of the piece")
    if (state.times is not None) != config.needs_times or not all(0 <= time < LATEST for time in state.times or ()):
        raise ValueError("its times are not those of a piece")
    for layer, empty in zip(state.layers, model.init_state(draw).layers, strict=True):
        tensors = layer.tensors()
        if _kinds(tensors) != _kinds(empty.tensors()):
            raise ValueError("its tensors do not fit the model")
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise ValueError("it holds numbers that are not finite")


def _kinds(tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """The shape and the type of each tensor."""
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def _check_setting(bookmark: Bookmark, language: Language) -> None:
    """Check that the piece so far can be played with its setting.

    Raises:
        ValueError: It cannot.
    """
    try:
        fault = fault_of(rendering_of(language, Constraints(bars=1), bookmark.setting).decode(bookmark.tokens))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, UserError):
        fault = "it cannot be decoded"
    if fault:
        raise ValueError(f"its setting is not one of a piece: {fault}")
