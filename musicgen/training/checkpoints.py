"""Checkpoints that are whole or not there.

The hard choice: there are two, `last` and `best`, and each is replaced in one step once the new one is on the disk.
A run can be killed at any moment, in the middle of writing a checkpoint too, and goes on from one that is whole.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from musicgen.errors import UserError

LAST, BEST = "last.ckpt", "best.ckpt"


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's way to the disk, made safe."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:  # noqa: ARG002
        """Write beside the old file, then take its place."""
        path = Path(path)
        partial = path.with_name(f".{path.name}.partial")
        try:
            with partial.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except (OSError, RuntimeError) as error:  # torch says a full disk by a RuntimeError
            with contextlib.suppress(OSError):
                partial.unlink()
            reason = getattr(error, "strerror", None) or "is the disk full?"
            kept = "; the one before is kept" if path.exists() else ""
            raise UserError(f"{path}: the checkpoint could not be written ({reason}){kept}") from None

    def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """Read one, on the CPU."""
        return load_checkpoint(Path(path))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What a checkpoint holds. Nothing in it is executed.

    Raises:
        UserError: It is missing, damaged, or not a checkpoint of ours.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such checkpoint")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever the damage leads to
        reason = str(error).strip().split("\n")[0][:120]
        named = reason if " " in reason else type(error).__name__  # an opcode, say, would tell nobody anything
        raise UserError(f"{path}: not a checkpoint that can be read ({named})") from None
    if not isinstance(checkpoint, dict) or "musicgen" not in checkpoint:
        raise UserError(f"{path}: not a checkpoint of `musicgen train`")
    return checkpoint
