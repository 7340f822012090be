"""Atomic checkpoints.

There are two, `last` and `best`. Each is replaced in one step once the new one is on disk. So a run that is killed,
even while it writes a checkpoint, resumes from a complete one.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from musicgen.errors import UserError
from musicgen.inputs import conform

LAST, BEST = "last.ckpt", "best.ckpt"
CHECKPOINT = {
    "state_dict": dict,
    "optimizer_states": list,
    "loops": dict,
    "global_step": int,
    "musicgen": {
        "config": {
            "model": dict,
            "pe": dict,
            "trainer": dict,
            "optimizer": {"decay_steps?": object},
            "batch_size": int,
            "seed": int,
        },
        "corpus": str,
        "step": int,
        "metrics": dict,
        "threads?": int,
    },
}
"""The shape of a checkpoint: what resuming compares. Whoever trains something stores more."""


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint writer, made atomic."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:  # noqa: ARG002
        """Write a temporary file, then replace the old one."""
        path = Path(path)
        partial = path.with_name(f".{path.name}.partial")
        try:
            with partial.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError if the disk is full
            reason = getattr(error, "strerror", None) or "is the disk full?"
            kept = "; the previous one is kept" if path.exists() else ""
            raise UserError(f"{path}: the checkpoint could not be written ({reason}){kept}") from None
        finally:
            with contextlib.suppress(OSError):  # it has its name by now, if all went well
                partial.unlink()

    def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """Read a checkpoint to the CPU."""
        return load_checkpoint(Path(path))


def load_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a checkpoint. Nothing in it is executed.

    Raises:
        UserError: It is missing, damaged, or not a checkpoint of `musicgen train`.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such checkpoint")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception:  # damaged files raise many kinds of errors, whose texts are about torch and not about the file
        raise UserError(f"{path}: not a checkpoint that can be read; it is damaged, or another kind of file") from None
    if not isinstance(checkpoint, dict) or "musicgen" not in checkpoint:
        raise UserError(f"{path}: not a checkpoint of `musicgen train`")
    try:
        conform(checkpoint, CHECKPOINT)
        conform([*checkpoint["state_dict"].values()], [torch.Tensor])
        conform([*checkpoint["state_dict"]], [str])
    except ValueError as error:
        raise UserError(f"{path}: not a checkpoint of `musicgen train`, or a damaged one ({error})") from None
    return checkpoint
