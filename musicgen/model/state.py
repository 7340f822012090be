"""What a model remembers of a piece: small, of constant size, and plain data.

A state is the draw, the next position of each row, and one attention memory for each layer. It never changes: a
step returns a new one, so keeping an old state is all it takes to rewind or to fork a piece. On disk it is a
safetensors file; nothing in it is executed.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from musicgen.attention import AttentionState
from musicgen.errors import UserError
from musicgen.spe import Draw

if TYPE_CHECKING:
    from musicgen.model.performer import Realization


@dataclasses.dataclass(frozen=True)
class State:
    """The state of a batch of pieces.

    Attributes:
        draw: The noise, common to the rows.
        positions: The next position of each row.
        layers: What each layer's attention remembers, rows along the batch.
        realization: What the model derived from the draw; not part of what is saved, and made again if absent.
    """

    draw: Draw
    positions: tuple[int, ...]
    layers: tuple[AttentionState, ...]
    realization: Realization | None = dataclasses.field(default=None, compare=False, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of memory it stands for."""
        return sum(layer.memory.nbytes + layer.log_scale.nbytes for layer in self.layers)

    def rows(self, indices: Sequence[int]) -> State:
        """The rows at `indices`, in that order; a row named twice is forked."""
        index = torch.tensor(indices, dtype=torch.long)
        layers = tuple(AttentionState(layer.memory[index], layer.log_scale[index]) for layer in self.layers)
        return dataclasses.replace(self, positions=tuple(self.positions[row] for row in indices), layers=layers)

    @staticmethod
    def join(states: Sequence[State]) -> State:
        """One batch of the rows of several states, which must come from the same draw."""
        first = states[0]
        if any(state.draw != first.draw for state in states):
            raise ValueError("only states of the same draw can be joined in one batch")
        layers = tuple(
            AttentionState(
                torch.cat([layer.memory for layer in layers]),
                torch.cat([layer.log_scale for layer in layers]),
            )
            for layers in zip(*(state.layers for state in states), strict=True)
        )
        positions = tuple(position for state in states for position in state.positions)
        return dataclasses.replace(first, positions=positions, layers=layers)

    def save(
        self,
        path: str | os.PathLike[str],
        others: Mapping[str, Tensor] | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Write the state to a safetensors file, whole or not at all.

        Args:
            path: Where to.
            others: Other tensors that are to be in the file, by name.
            about: Texts that are to be in it.
        """
        path = Path(path)
        tensors = {
            **(others or {}),
            "memory": torch.stack([layer.memory for layer in self.layers]),
            "log_scale": torch.stack([layer.log_scale for layer in self.layers]),
            "positions": torch.tensor(self.positions, dtype=torch.int64),
        }
        partial = path.with_name(path.name + ".partial")
        save_file(tensors, partial, {**(about or {}), "draw": json.dumps(dataclasses.asdict(self.draw))})
        partial.replace(path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> State:
        """Read a state that `save` wrote."""
        try:
            with safe_open(path, "pt") as file:
                tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                draw = Draw(**json.loads((file.metadata() or {})["draw"]))
            memory, log_scale = tensors["memory"], tensors["log_scale"]
            positions = tuple(tensors["positions"].tolist())
        except FileNotFoundError:
            raise UserError(f"{path}: there is no such state file") from None
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: not a state file, or a damaged one ({error})") from None
        if memory.dim() != 5 or log_scale.shape != memory.shape[:3] or memory.shape[1] != len(positions):
            raise UserError(f"{path}: not a state file, or a damaged one (its tensors do not fit together)")
        layers = tuple(AttentionState(*layer) for layer in zip(memory, log_scale, strict=True))
        return State(draw, positions, layers)
