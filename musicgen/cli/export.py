"""`musicgen export`: a bundle from a checkpoint.

The hard choice: it takes a checkpoint or the folder of a run, of which it takes the best: what people have at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from musicgen.cli.compose import configure
from musicgen.cli.typed import build
from musicgen.errors import UserError

ABOUT = """\
usage: musicgen export checkpoint=FILE|RUN out=DIR [key=value ...]

Makes a model bundle (model.safetensors, config.json, tokenizer.json, MODEL_CARD.md) from a checkpoint of
`musicgen train`, or from the best checkpoint of a run. With half=true its matrices have 16 bits a number, and the
bundle half the size; the model still computes in 32. With temperature=1.0 top_p=0.95 the bundle says how it is best
sampled, which `musicgen generate` then does unless it is told something else.

example: musicgen export checkpoint=runs/smoke out=models/smoke
"""


@dataclass(frozen=True)
class ExportConfig:
    """What `conf/export.yaml` holds, key by key."""

    checkpoint: Path | None
    out: Path | None
    half: bool
    temperature: float | None
    top_p: float | None


def run(arguments: list[str]) -> int:
    """Export."""
    composed = configure("export", ABOUT, arguments, ("checkpoint", "out"))
    if composed is None:
        return 0
    config = build(ExportConfig, composed)
    if config.checkpoint is None or config.out is None:
        missing = "checkpoint" if config.checkpoint is None else "out"
        raise UserError(f"{missing} is missing: write {missing}=PATH (see `musicgen export --help`)")
    from musicgen.training.checkpoints import BEST, LAST
    from musicgen.training.export import export_checkpoint
    from musicgen.training.folder import CHECKPOINTS

    path = config.checkpoint
    if path.is_dir():
        found = [path / CHECKPOINTS / name for name in (BEST, LAST) if (path / CHECKPOINTS / name).is_file()]
        if not found:
            raise UserError(f"checkpoint={path}: a folder without {CHECKPOINTS}/{BEST}, so not that of a run")
        path = found[0]
    model = export_checkpoint(path, config.out, config.half, _sampling(config))
    print(f"{path}: {model.num_parameters():,} parameters, exported to {config.out}")
    return 0


def _sampling(config: ExportConfig) -> dict[str, float]:
    from musicgen.sampling.choose import Taste

    given = {name: getattr(config, name) for name in ("temperature", "top_p") if getattr(config, name) is not None}
    try:
        Taste(**given)
    except ValueError as error:
        raise UserError(str(error)) from None
    return given
