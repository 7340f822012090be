"""The Performer language model: tokens in, logits out, in parallel or one token at a time.

Design note: nothing random happens inside the model, dropout included. All noise is in a `Draw` that the caller
holds, so the same draw gives the same function whether tokens come all at once (`forward`), in chunks
(`prefill`) or one by one (`step`), today or after a restart.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from typing import cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from musicgen.attention import AttentionState, Backend, FeatureMap, feature_map
from musicgen.model.config import PerformerConfig
from musicgen.model.dropout import DropoutNoise, dropout
from musicgen.model.layers import PerformerLayer, full_precision
from musicgen.model.packed import Versions, packed
from musicgen.model.places import find_places
from musicgen.model.positions import make_encoding
from musicgen.model.state import LayerState, State
from musicgen.model.stepper import Stepper
from musicgen.spe import Draw

PREFILL_CHUNK = 256  # tokens read at a time: bounds memory at any length


class PerformerLM(nn.Module):
    """A causal language model with linear attention.

    Args:
        config: Sizes and choices.
        backend: How attention is computed in `forward` and `prefill`; `step` is always recurrent.

    Attributes:
        checkpoint_activations: Whether `forward` keeps only the input of each layer, and computes the layer again
            for the gradient: less memory, a third more time, the same gradient to the bit.
        engine_name: A model is its own engine, see `musicgen.model.engine`.
    """

    engine_name = "torch"

    def __init__(self, config: PerformerConfig, backend: Backend = "chunked") -> None:
        super().__init__()
        self.config = config
        self.backend: Backend = backend
        self.checkpoint_activations = False
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.encoding = make_encoding(config)
        self.layers = nn.ModuleList(PerformerLayer(config, index) for index in range(config.num_layers))
        self.last_norm = nn.LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()
        self.output = nn.Linear(config.d_model, config.vocab_size)
        self._initialise()

    def _initialise(self) -> None:
        """Normal weights, zero biases, norms near one; codes and gates keep their own initialisation."""
        std = self.config.weight_std
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0.0, std)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.LayerNorm):
                nn.init.normal_(module.weight, 1.0, std)
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, 0.0, self.config.embedding_std or self.config.d_model**-0.5)

    def draw(self, seed: int, num_realizations: int | None = None, feature_seed: int | None = None) -> Draw:
        """All the noise of one piece, or of one training step, from a seed.

        Args:
            seed: The seed of codes and gates, and of random features unless `feature_seed` is given.
            num_realizations: R, if it differs from the config's.
            feature_seed: The seed of the random features of attention.
        """
        realizations = self.config.num_realizations if num_realizations is None else num_realizations
        return Draw(seed, realizations, self.config.noise, feature_seed)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.embedding.weight.device

    def forward(
        self,
        tokens: Tensor,
        draw: Draw,
        positions: Tensor | None = None,
        first_row: int = 0,
        times: Tensor | None = None,
    ) -> Tensor:
        """Logits of every next token, in parallel.

        Args:
            tokens: `(batch, length)` ids.
            draw: The noise.
            positions: Indices of the tokens, `(length,)`; by default 0, 1, 2, …
            first_row: The number of the first row in a larger batch: in training each row has its own dropout.
            times: Musical times of the tokens in beats, `(batch, length)`, for a model that works in time.

        Returns:
            `(batch, length, vocab_size)`.
        """
        if positions is None:
            positions = torch.arange(tokens.shape[1])
        places = find_places(self.config, tokens, positions, times, None)
        with full_precision(self.embedding.weight):
            encoder = self.encoding.encoder(draw, places.positions, self.embedding.weight)
        noise = DropoutNoise(self.config.dropout, draw, first_row) if self.training and self.config.dropout else None
        hidden = self._embed(tokens, places.positions, noise)
        for layer, features in zip(self.layers, self.feature_maps(draw), strict=True):
            arguments = (hidden, encoder, features, None, self.backend, noise, places.elapsed)
            if self.checkpoint_activations and torch.is_grad_enabled():
                hidden, _ = checkpoint(layer, *arguments, use_reentrant=False)
            else:
                hidden, _ = layer(*arguments)
        return cast(Tensor, self.output(self.last_norm(hidden)))

    def init_state(self, draw: Draw, batch_size: int = 1) -> State:
        """The state before the first token of each of `batch_size` pieces."""
        config, like = self.config, self.embedding.weight.detach()
        features = config.attention_features(draw.num_realizations)
        empty = AttentionState.empty(batch_size, config.num_heads, features, config.memory_values - 1, like)
        log_scale = empty.log_scale if config.attention == "linear" else torch.zeros_like(empty.log_scale)
        recent = None
        if config.short_conv:
            recent = like.new_zeros(batch_size, config.short_conv - 1, 3 * config.d_model)
        layers = (LayerState(empty.memory, log_scale, recent),) * config.num_layers
        times = (0.0,) * batch_size if config.needs_times else None
        return State(draw, (0,) * batch_size, layers, self._realize(draw), times)

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State, times: Tensor | None = None) -> tuple[Tensor, State]:
        """Read one token in each row, at a cost that does not depend on position; without dropout.

        A row's logits and state are the same bits whatever the other rows are (see stepper.py).

        Args:
            tokens: `(batch,)` ids.
            state: The state before them.
            times: Their musical times in beats, `(batch,)`, for a model that works in time.

        Returns:
            Logits of the next token, `(batch, vocab_size)`, and the state after.
        """
        realization = self._realization_of(state)
        self.check_rows(tokens, state)
        indices = torch.tensor(state.positions).unsqueeze(-1)
        columns = tokens.unsqueeze(-1), None if times is None else times.unsqueeze(-1)
        places = find_places(self.config, columns[0], indices, columns[1], state.times)
        with full_precision(self.embedding.weight):
            hidden = self._embed(columns[0], places.positions, None).squeeze(1)
            rows = places.positions.squeeze(1).tolist()
            logits, layers = realization.stepper(hidden, rows, state.layers, places.elapsed)
        return logits, self._after(state, realization, layers, 1, columns[1])

    @torch.no_grad()
    def prefill(self, tokens: Tensor, state: State, times: Tensor | None = None) -> tuple[Tensor, State]:
        """Read many tokens in chunks, in memory that does not depend on their number; without dropout.

        Args:
            tokens: `(batch, length)` ids.
            state: The state before them; if positions are token indices, all rows must be at the same position.
            times: Their musical times in beats, `(batch, length)`, for a model that works in time.

        Returns:
            Logits of every next token, `(batch, length, vocab_size)`, and the state after.
        """
        realization = self._realization_of(state)
        self.check_rows(tokens, state)
        if len(set(state.positions)) > 1 and self.config.positions == "token":
            raise ValueError("prefill takes rows that are at the same position: prefill them apart, then join them")
        logits = []
        for first in range(0, tokens.shape[1], PREFILL_CHUNK):
            part = slice(first, first + PREFILL_CHUNK)
            chunk, own_times = tokens[:, part], None if times is None else times[:, part]
            indices = state.positions[0] + torch.arange(chunk.shape[1])
            places = find_places(self.config, chunk, indices, own_times, state.times)
            encoder = self.encoding.encoder(state.draw, places.positions, self.embedding.weight)
            hidden = self._embed(chunk, places.positions, None)
            layers = []
            for layer, features, before in zip(self.layers, realization.features, state.layers, strict=True):
                hidden, after = layer(hidden, encoder, features, before, self.backend, None, places.elapsed)
                layers.append(after)
            logits.append(self.output(self.last_norm(hidden)))
            state = self._after(state, realization, tuple(layers), chunk.shape[1], own_times)
        return torch.cat(logits, 1), state

    def _after(
        self, state: State, realization: Realization, layers: tuple[LayerState, ...], length: int, times: Tensor | None
    ) -> State:
        """The state after `length` tokens."""
        positions = tuple(position + length for position in state.positions)
        last = tuple(times[:, -1].tolist()) if times is not None and self.config.needs_times else None
        return State(state.draw, positions, layers, realization, last)

    def save_bundle(self, folder: str | os.PathLike[str], card: str | None = None) -> None:
        """Write this model to a folder that `load_bundle` reads; see `musicgen.model.bundle`."""
        from musicgen.model.bundle import save_bundle  # bundle.py builds models, so it imports this file

        save_bundle(self, folder, card)

    def num_parameters(self) -> int:
        """How many parameters are trained."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def _embed(self, tokens: Tensor, positions: Tensor, noise: DropoutNoise | None) -> Tensor:
        """Scaled embeddings with dropout, and what the encoding adds to them: `(batch, length, d_model)`."""
        hidden = self.embedding(tokens) * math.sqrt(self.config.d_model)
        return self.encoding.add_to(dropout(hidden, noise, site=0), positions)

    def feature_maps(self, draw: Draw) -> list[FeatureMap] | list[None]:
        """The feature map of each layer for a draw; None where attention has none."""
        config = self.config
        if config.attention == "delta":
            return [None] * config.num_layers
        like, encoded = self.embedding.weight, config.encoded_features(draw.num_realizations)
        return [
            feature_map(config.feature_map, draw, layer, encoded, config.num_features, like)
            for layer in range(config.num_layers)
        ]

    def _realize(self, draw: Draw) -> Realization:
        return Realization(self, draw, self.feature_maps(draw), Versions(self))

    def _realization_of(self, state: State) -> Realization:
        known = state.realization
        if known is None or known.model is not self or not known.versions.are_current():
            return self._realize(state.draw)
        return known

    def check_rows(self, tokens: Tensor, state: State) -> None:
        """Raise ValueError if a state does not fit the model or the tokens."""
        if len(state.layers) != self.config.num_layers:
            raise ValueError(f"a state of {len(state.layers)} layers is not one of a model of {self.config.num_layers}")
        if (state.times is not None) != self.config.needs_times or (state.layers[0].recent is not None) != bool(
            self.config.short_conv
        ):
            raise ValueError("this state is of another model: it differs in musical time or in the convolution")
        if tokens.shape[0] != len(state.positions):
            raise ValueError(f"tokens of {tokens.shape[0]} rows do not match a state of {len(state.positions)}")


@dataclasses.dataclass(frozen=True, eq=False)
class Realization:
    """What a model derives from a draw and uses at every position: made once for a piece, never saved.

    It is made again when the model's weights have changed, so a step always uses the current weights.
    """

    model: PerformerLM
    draw: Draw
    features: list[FeatureMap] | list[None]
    versions: Versions

    @functools.cached_property
    def stepper(self) -> Stepper:
        """What runs a step. It is made at the first step, because training and reading do not need it."""
        encoding = self.model.encoding.stream(self.draw, self.model.embedding.weight)
        return Stepper(packed(self.model), self.features, encoding)
