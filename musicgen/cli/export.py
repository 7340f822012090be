"""`musicgen export`: makes a model bundle from a checkpoint, or from the best checkpoint of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from musicgen.cli.command import Command
from musicgen.errors import UserError
from musicgen.options import option, options
from musicgen.request import Choosing

ABOUT = """\
usage: musicgen export checkpoint=FILE|RUN out=DIR [key=value ...]

Makes a model bundle (model.safetensors, config.json, tokenizer.json, MODEL_CARD.md) from a checkpoint of
`musicgen train`, or from the best checkpoint of a run. The last options say how the model is best sampled:
`musicgen generate` uses them by default.

{keys}

example: musicgen export checkpoint=runs/smoke out=models/smoke
"""


@dataclass(frozen=True)
class _First:
    """What help shows first."""

    checkpoint: Path | None = option(
        needed=True, like="PATH", help="a checkpoint, or the folder of a run, to take its best checkpoint"
    )
    out: Path | None = option(needed=True, like="PATH", help="folder that becomes the bundle")
    half: bool = option(
        False, help="true stores matrices in 16 bits a number, which halves the bundle; the model still computes in 32"
    )
    onnx: bool = option(
        False, help="true adds step.onnx and step.json: a step of the model as a graph, to be run without Python"
    )


@dataclass(frozen=True)
class ExportConfig(Choosing, _First):
    """The options of `musicgen export`."""


def export(config: ExportConfig) -> None:
    """Make the bundle.

    Raises:
        UserError: There is no such checkpoint, or the folder cannot be used.
    """
    from musicgen.training.checkpoints import BEST, LAST
    from musicgen.training.export import export_checkpoint
    from musicgen.training.folder import CHECKPOINTS

    path, out = config.checkpoint or Path(), config.out or Path()
    if path.is_dir():
        found = [path / CHECKPOINTS / name for name in (BEST, LAST) if (path / CHECKPOINTS / name).is_file()]
        if not found:
            raise UserError(f"checkpoint={path}: not the folder of a run (it has no {CHECKPOINTS}/{BEST})")
        path = found[0]
    sampling = {name: getattr(config, name) for name in options(Choosing) if getattr(config, name) is not None}
    model = export_checkpoint(path, out, config.half, sampling, config.onnx)
    print(f"{path}: {model.num_parameters():,} parameters, exported to {out}")


run = Command("export", ABOUT, ExportConfig, export)
