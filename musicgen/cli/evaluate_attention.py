"""`musicgen evaluate attention`: learned kernels, gates and attention maps, to look at.

The hard choice: everything is looked at in one run and shown on one page, because kernels, gates and maps explain one
another.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from musicgen.cli.evaluate import progress, run_kind
from musicgen.cli.numbers import whole_numbers

if TYPE_CHECKING:
    from musicgen.evaluation.findings import Findings

ABOUT = """\
usage: musicgen evaluate attention model=NAME|DIR[,...] [midi=FILE] out=DIR [key=value ...]

Shows what models attend to: the positional kernels that SPE has learnt, in closed form and as one draw of noise
realises them; attention maps of a piece, which a page lets one explore by layer and head; gates and decays. The piece
is one that each model writes, half as long again as what it was trained on, or a MIDI file. Tables say where queries
look, within the trained length and beyond it. Layers, heads and features are counted from 1.

keys:
  model=NAME|DIR,...  models of one token language: built-in ones by name, folders of bundles or of runs
  out=DIR             folder for tables, pictures, maps and index.html
  midi=FILE           a MIDI file that is read instead of a piece that the model writes
  tokens=384          how long the piece is, at most; 1.5 times the trained length by default
  trained=N           tokens of a training window, if a bundle does not say
  layers=1,3          layers of maps; as in the paper, 1, 3, 12, 20 and 24 of 24, in proportion
  heads=1,2           heads of maps and kernels; by default the first 8 for maps, all for kernels
  features=5,6        features of kernels; all by default
  templates=16        kernels that are shown, picked at random
  draws=8             draws of the noise, with which kernels are compared
  kind=exact          attention of maps: exact (softmax, as in the paper) or features (what the model computes)
  seed=0              of the piece, of the picks and of the first draw
  overwrite=true      replaces an evaluation that is in the folder

example: musicgen evaluate attention model=runs/sine,runs/ape out=attention
"""
TEXTS = ("model", "out", "midi", "layers", "heads", "features")  # values that may hold commas


@dataclass(frozen=True)
class AttentionConfig:
    """What `conf/evaluate_attention.yaml` holds, key by key."""

    model: str
    out: Path
    midi: Path | None
    tokens: int | None
    trained: int | None
    layers: str | None
    heads: str | None
    features: str | None
    templates: int
    draws: int
    kind: Literal["exact", "features"]
    seed: int
    overwrite: bool

    def __post_init__(self) -> None:
        for name, least in (("tokens", 2), ("trained", 2), ("templates", 1), ("draws", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}={value}: takes a number from {least} on")


def run(arguments: list[str]) -> int:
    """Look at attention."""
    needed = {"model": "NAME or DIR"}
    return run_kind("attention", ABOUT, AttentionConfig, evaluate, arguments, TEXTS, needed)


def evaluate(config: AttentionConfig) -> Findings:
    """Look.

    Raises:
        UserError: A model, the piece or a key cannot be used.
    """
    layers, heads, features = (whole_numbers(name, getattr(config, name)) for name in ("layers", "heads", "features"))

    from musicgen.evaluation.attention import Wish, attention_findings, read_pieces, subject_of
    from musicgen.evaluation.models import load_models, one_language

    rest = {name: getattr(config, name) for name in ("templates", "draws", "midi", "tokens", "kind", "seed", "trained")}
    wish = Wish(layers, heads, features, **rest)
    models = load_models(config.model)
    one_language(models)
    subjects = [subject_of(model, wish) for model in models]
    read = read_pieces(subjects, wish, progress)
    return attention_findings(subjects, read, wish, asdict(config))
