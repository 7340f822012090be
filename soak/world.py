"""What is attacked: small models, corpora, states, runs and MIDI files of both languages, made once by the commands."""

from __future__ import annotations

from pathlib import Path

from soak.cases import Fault, call, isolated

TINY = (
    "experiment=smoke",
    "model.num_layers=2",
    "model.d_model=16",
    "model.d_ff=32",
    "model.num_heads=2",
    "model.num_features=8",
    "pe.num_realizations=8",
    "data.bars=6",
    "data.length=24",
    "batch_size=4",
    "trainer.threads=1",
    "trainer.max_steps=8",
    "trainer.checkpoint_every=2",
    "trainer.log_every=1",
    "validation.every=4",
    "validation.songs=null",
    "validation.sample_bars=null",
)
SOURCES = {"pop": ("synthetic", "data.songs=12"), "groove": ("synthetic_grooves", "data.songs=40")}
"""The synthetic music that models of each language are trained on, by a short name."""


def training(kind: str, run_dir: Path, *more: str) -> list[str]:
    """The command that trains a tiny model."""
    source, songs = SOURCES[kind]
    return ["train", *TINY, f"data.source={source}", songs, f"run_dir={run_dir}", *more]


def build(world: Path, with_run: bool = True) -> None:
    """Make everything in a folder.

    Args:
        world: The folder.
        with_run: Whether to train and evaluate too. It takes longer than all the rest.

    Raises:
        Fault: A command failed.
    """
    world.mkdir(parents=True)
    isolated(lambda: write_inputs(world), 300)
    for kind in SOURCES:
        few = ("n=2", "bars=2", "states=bars", "picture=false")
        _make("generate", f"model={world / f'{kind}_bundle'}", *few, f"out={world / f'{kind}_pieces'}")
    if with_run:
        _make(*training("pop", world / "pop_run"))
        reference = (f"generated={world / 'pop_pieces'}", f"reference={world / 'midi'}")
        _make("evaluate", "music", *reference, f"out={world / 'evaluation'}")


def _make(*arguments: str) -> None:
    ended = isolated(lambda: call(*arguments), 300)
    if ended[0]:
        raise Fault(f"musicgen {' '.join(arguments)}: {ended[2]}")


def write_inputs(world: Path) -> None:
    """MIDI files, corpora, and bundles of models that have learnt nothing."""
    import torch

    from musicgen.data.prepare import synthetic_corpus
    from musicgen.languages.registry import FILE, tokenizer_json
    from musicgen.midi.write import write_midi
    from musicgen.model import PerformerConfig, PerformerLM, save_bundle

    (world / "midi").mkdir()
    for kind, (source, _) in SOURCES.items():
        corpus = synthetic_corpus(source, 6 if kind == "pop" else 20, 4, 0)
        (world / f"{kind}_corpus").mkdir()
        corpus.write(world / f"{kind}_corpus")
        for number, song in enumerate(corpus.songs()[:3]):
            write_midi(corpus.score(song), world / "midi" / f"{source}_{number}.mid")
        torch.manual_seed(0)
        size = {"num_layers": 2, "num_heads": 2, "d_model": 16, "d_ff": 32, "num_features": 8, "num_realizations": 8}
        decay = {} if kind == "pop" else {"decay": "fixed", "decay_positions": "time", "short_conv": 3}
        model = PerformerLM(PerformerConfig(len(corpus.language.vocabulary), **size, **decay))  # type: ignore[arg-type]
        files, training = {FILE: tokenizer_json(corpus.language)}, {"length": 24, "batch_size": 4, "seed": 0}
        save_bundle(model.eval(), world / f"{kind}_bundle", files=files, training=training)
