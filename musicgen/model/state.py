"""What a model remembers of a piece: small, of constant size, and plain data.

A state is the draw, the next position of each row, and one memory for each layer. It never changes: a step returns a
new one, so to rewind or fork a piece, keep an old state. On disk it is a safetensors file; nothing
in it is executed.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from musicgen.attention import AttentionState
from musicgen.errors import UserError
from musicgen.inputs import conform, parse_json
from musicgen.model.tensors import open_tensors, write_tensors
from musicgen.spe import Draw

if TYPE_CHECKING:
    from musicgen.model.performer import Realization


DRAW = {"seed": int, "num_realizations": int, "noise": str, "feature_seed?": (int, None)}
"""The shape of a draw in a file."""
TENSORS = {
    "memory": (torch.float32, 5),
    "log_scale": (torch.float32, 3),
    "positions": (torch.int64, 1),
    "recent": (torch.float32, 4),
    "times": (torch.float64, 1),
}
"""The type and the number of axes of each tensor in a file."""
REQUIRED = ("memory", "log_scale", "positions")


@dataclasses.dataclass(frozen=True)
class LayerState(AttentionState):
    """What one layer remembers: the memory of its attention and the last inputs of its convolution.

    Attributes:
        recent: Queries, keys and values of the last tokens, `(batch, taps − 1, 3·d_model)`; None without convolution.
    """

    recent: Tensor | None = None

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, rows along the first axis."""
        recent = {} if self.recent is None else {"recent": self.recent}
        return {"memory": self.memory, "log_scale": self.log_scale, **recent}


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a batch of pieces.

    Attributes:
        draw: The noise, common to the rows.
        positions: The index of the next token of each row.
        layers: What each layer remembers, rows along the batch.
        realization: What the model derived from the draw; not part of what is saved, and made again if absent.
        times: The time of the last token of each row, in beats, 0 before the first; None if the model needs no times.
    """

    draw: Draw
    positions: tuple[int, ...]
    layers: tuple[LayerState, ...]
    realization: Realization | None = dataclasses.field(default=None, compare=False, repr=False)
    times: tuple[float, ...] | None = None

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return sum(tensor.nbytes for layer in self.layers for tensor in layer.tensors().values())

    def rows(self, indices: Sequence[int]) -> State:
        """The rows at `indices`, in that order; a row named twice is forked."""
        index = torch.tensor(indices, dtype=torch.long)
        return dataclasses.replace(
            self,
            positions=tuple(self.positions[row] for row in indices),
            layers=tuple(
                LayerState(**{name: tensor[index] for name, tensor in layer.tensors().items()}) for layer in self.layers
            ),
            times=None if self.times is None else tuple(self.times[row] for row in indices),
        )

    @staticmethod
    def join(states: Sequence[State]) -> State:
        """One batch of the rows of several states, which must come from the same draw."""
        first = states[0]
        if any(state.draw != first.draw for state in states):
            raise ValueError("only states of the same draw can be joined in one batch")
        layers = []
        for parts in zip(*(state.layers for state in states), strict=True):
            tensors = [part.tensors() for part in parts]
            layers.append(LayerState(**{name: torch.cat([own[name] for own in tensors]) for name in tensors[0]}))
        times = [state.times for state in states]
        return dataclasses.replace(
            first,
            positions=tuple(position for state in states for position in state.positions),
            layers=tuple(layers),
            times=None if first.times is None else tuple(time for own in times for time in own or ()),
        )

    def save(
        self,
        path: str | os.PathLike[str],
        others: Mapping[str, Tensor] | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Write the state to a safetensors file, completely or not at all.

        Args:
            path: The file.
            others: Other tensors for the file, by name.
            about: Texts for the file, by name.
        """
        layers = [layer.tensors() for layer in self.layers]
        tensors = {
            **(others or {}),
            **{name: torch.stack([layer[name] for layer in layers]) for name in layers[0]},
            "positions": torch.tensor(self.positions, dtype=torch.int64),
            **({} if self.times is None else {"times": torch.tensor(self.times, dtype=torch.float64)}),
        }
        write_tensors(Path(path), tensors, {**(about or {}), "draw": json.dumps(dataclasses.asdict(self.draw))})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> State:
        """Read a state that `save` wrote."""
        try:
            with open_tensors(Path(path)) as file:
                tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                about = file.metadata() or {}
            draw = parse_json(about.get("draw", ""))
            conform(draw, DRAW)
            return State._from_tensors(Draw(**draw), tensors)
        except FileNotFoundError:
            raise UserError(f"{path}: there is no such state file") from None
        except OSError as error:
            raise UserError(f"{path}: not a state file ({error.strerror})") from None
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"{path}: not a state file, or a damaged one ({error})") from None

    @staticmethod
    def _from_tensors(draw: Draw, tensors: Mapping[str, Tensor]) -> State:
        """A state from the tensors of a file.

        Raises:
            ValueError: They are not those of a state, or hold numbers that are not finite.
        """
        kinds = {name: kind for name, kind in TENSORS.items() if name in tensors or name in REQUIRED}
        for name, (dtype, axes) in kinds.items():
            if name not in tensors or tensors[name].dtype != dtype or tensors[name].dim() != axes:
                raise ValueError(f"its {name} is not a tensor of {axes} axes and type {dtype}")
            if dtype.is_floating_point and not bool(torch.isfinite(tensors[name]).all()):
                raise ValueError(f"its {name} holds numbers that are not finite")
        memory, log_scale, positions = (tensors[name] for name in REQUIRED)
        recent, times = tensors.get("recent"), tensors.get("times")
        rows = len(positions)
        fits = log_scale.shape == memory.shape[:3] and memory.shape[1] == rows and bool((positions >= 0).all())
        fits = fits and (times is None or len(times) == rows) and (recent is None or recent.shape[1] == rows)
        parts = [memory, log_scale] if recent is None else [memory, log_scale, recent]
        if not fits or len({len(part) for part in parts}) > 1:
            raise ValueError("its tensors do not fit together")
        layers = tuple(LayerState(*layer) for layer in zip(*parts, strict=True))
        return State(draw, tuple(positions.tolist()), layers, times=None if times is None else tuple(times.tolist()))
