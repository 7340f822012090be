"""The Performer language model: tokens in, logits out, in parallel or one token at a time.

The hard choice: nothing random happens inside the model, dropout included. All noise is in a `Draw` that the caller
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
from musicgen.model.encoding import PositionalEncoding, StreamingEncoding, sinusoids
from musicgen.model.layers import PerformerLayer, full_precision
from musicgen.model.packed import Versions, packed
from musicgen.model.state import State
from musicgen.model.stepper import Stepper
from musicgen.spe import Draw

PREFILL_CHUNK = 256  # tokens read at a time: bounds memory at any length


class PerformerLM(nn.Module):
    """A causal language model with linear attention.

    Args:
        config: Sizes and choices.
        backend: How attention is computed in `forward` and `prefill`; `step` is always recurrent.

    Attributes:
        checkpoint_activations: Whether `forward` keeps nothing of a layer but what went in, and computes it again for
            the gradient: less memory, a third more time, the same gradient to the bit.
    """

    def __init__(self, config: PerformerConfig, backend: Backend = "chunked") -> None:
        super().__init__()
        self.config = config
        self.backend: Backend = backend
        self.checkpoint_activations = False
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.encoding = PositionalEncoding(config)
        self.layers = nn.ModuleList(PerformerLayer(config, index) for index in range(config.num_layers))
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
            seed: Of codes and gates, and of the random features unless `feature_seed` is given.
            num_realizations: R, if it is to differ from the config's.
            feature_seed: A seed of their own for the random features of attention.
        """
        realizations = self.config.num_realizations if num_realizations is None else num_realizations
        return Draw(seed, realizations, self.config.noise, feature_seed)

    def forward(self, tokens: Tensor, draw: Draw, positions: Tensor | None = None, first_row: int = 0) -> Tensor:
        """Logits of every next token, in parallel.

        Args:
            tokens: `(batch, length)` ids.
            draw: The noise.
            positions: `(length,)`; by default 0, 1, 2, …
            first_row: Which row of a larger batch the first row here is: each has dropout of its own in training.

        Returns:
            `(batch, length, vocab_size)`.
        """
        if positions is None:
            positions = torch.arange(tokens.shape[1])
        with full_precision(self.embedding.weight):
            encoder = self.encoding.encoder(draw, positions, self.embedding.weight)
        noise = DropoutNoise(self.config.dropout, draw, first_row) if self.training and self.config.dropout else None
        hidden = self._embed(tokens, positions, noise)
        for layer, features in zip(self.layers, self._feature_maps(draw), strict=True):
            if self.checkpoint_activations and torch.is_grad_enabled():
                hidden, _ = checkpoint(layer, hidden, encoder, features, None, self.backend, noise, use_reentrant=False)
            else:
                hidden, _ = layer(hidden, encoder, features, None, self.backend, noise)
        return cast(Tensor, self.output(hidden))

    def init_state(self, draw: Draw, batch_size: int = 1) -> State:
        """The state before the first token of each of `batch_size` pieces."""
        config = self.config
        features = config.num_features if config.feature_map == "favor" else self._encoded_features(draw)
        empty = AttentionState.empty(
            batch_size, config.num_heads, features, config.head_features, self.embedding.weight.detach()
        )
        return State(draw, (0,) * batch_size, (empty,) * config.num_layers, self._realize(draw))

    @torch.no_grad()
    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one token in each row, at a cost that does not depend on position; without dropout.

        A row's logits and state are the same bits whatever the other rows are, and wherever (see stepper.py).

        Args:
            tokens: `(batch,)` ids.
            state: The state before them.

        Returns:
            Logits of the next token, `(batch, vocab_size)`, and the state after.
        """
        realization = self._realization_of(state)
        self._check_rows(tokens, state)
        positions = torch.tensor(state.positions).unsqueeze(-1)
        with full_precision(self.embedding.weight):
            hidden = self._embed(tokens.unsqueeze(-1), positions, None).squeeze(1)
            logits, layers = realization.stepper(hidden, state.positions, state.layers)
        after = tuple(position + 1 for position in state.positions)
        return logits, State(state.draw, after, layers, realization)

    @torch.no_grad()
    def prefill(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Read many tokens in chunks, in memory that does not depend on how many; without dropout.

        Args:
            tokens: `(batch, length)` ids.
            state: The state before them; its rows must be at the same position.

        Returns:
            Logits of every next token, `(batch, length, vocab_size)`, and the state after.
        """
        realization = self._realization_of(state)
        self._check_rows(tokens, state)
        if len(set(state.positions)) > 1:
            raise ValueError("prefill takes rows that are at the same position: prefill them apart, then join them")
        logits = []
        for chunk in tokens.split(PREFILL_CHUNK, 1):
            start, length = state.positions[0], chunk.shape[1]
            positions = torch.arange(start, start + length)
            encoder = self.encoding.encoder(state.draw, positions, self.embedding.weight)
            hidden = self._embed(chunk, positions, None)
            layers = []
            for layer, features, before in zip(self.layers, realization.features, state.layers, strict=True):
                hidden, after = layer(hidden, encoder, features, before, self.backend, None)
                layers.append(after)
            logits.append(self.output(hidden))
            state = State(state.draw, (start + length,) * tokens.shape[0], tuple(layers), realization)
        return torch.cat(logits, 1), state

    def save_bundle(self, folder: str | os.PathLike[str], card: str | None = None) -> None:
        """Write this model to a folder that `load_bundle` reads; see `musicgen.model.bundle`."""
        from musicgen.model.bundle import save_bundle  # bundle.py builds models, so it imports this file

        save_bundle(self, folder, card)

    def num_parameters(self) -> int:
        """How many parameters are trained."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def _embed(self, tokens: Tensor, positions: Tensor, noise: DropoutNoise | None) -> Tensor:
        """Scaled embeddings with dropout; then, for `ape`, sinusoids. `(batch, length, d_model)`."""
        hidden = self.embedding(tokens) * math.sqrt(self.config.d_model)
        hidden = dropout(hidden, noise, site=0)
        if self.config.pe == "ape":
            hidden = hidden + sinusoids(positions, self.config.d_model).to(hidden)
        return hidden

    def _encoded_features(self, draw: Draw) -> int:
        """E: the dimension of encoded queries and keys."""
        return draw.num_realizations if self.config.is_stochastic else self.config.head_features

    def _feature_maps(self, draw: Draw) -> list[FeatureMap]:
        config = self.config
        like = self.embedding.weight
        return [
            feature_map(config.feature_map, draw, layer, self._encoded_features(draw), config.num_features, like)
            for layer in range(config.num_layers)
        ]

    def _realize(self, draw: Draw) -> Realization:
        return Realization(self, draw, self._feature_maps(draw), Versions(self))

    def _realization_of(self, state: State) -> Realization:
        known = state.realization
        if known is None or known.model is not self or not known.versions.are_current():
            return self._realize(state.draw)
        return known

    def _check_rows(self, tokens: Tensor, state: State) -> None:
        if len(state.layers) != self.config.num_layers:
            raise ValueError(f"a state of {len(state.layers)} layers is not one of a model of {self.config.num_layers}")
        if tokens.shape[0] != len(state.positions):
            raise ValueError(f"tokens of {tokens.shape[0]} rows do not match a state of {len(state.positions)}")


@dataclasses.dataclass(frozen=True, eq=False)
class Realization:
    """What a model derives from a draw and uses at every position: made once for a piece, never saved.

    It is made again once the model's weights have changed, so that a step is always that of the model as it is.
    """

    model: PerformerLM
    draw: Draw
    features: list[FeatureMap]
    versions: Versions

    @functools.cached_property
    def stepper(self) -> Stepper:
        """What runs a step; made at the first, since those who only train or read need none."""
        encoding = StreamingEncoding(self.model.encoding, self.draw, self.model.embedding.weight)
        return Stepper(packed(self.model), self.features, encoding)
