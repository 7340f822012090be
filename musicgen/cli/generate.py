"""`musicgen generate`: new pieces, or what follows a prompt, as MIDI, pictures and sound.

The hard choice: everything that can be wrong is found before the first token. Model, prompt, constraints and folder are
read and checked; only then is the folder made and music written into it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from musicgen.cli.compose import configure
from musicgen.cli.typed import build
from musicgen.errors import UserError
from musicgen.files import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from musicgen.model import PerformerLM
    from musicgen.sampling import Session
    from musicgen.sampling.gallery import Gallery

ABOUT = """\
usage: musicgen generate [key=value ...]

Writes pieces with a model: out/piece_0.mid and so on, each with its record (.json), its piano roll (.png) and, if
asked for, its sound (.wav); out/index.html shows them all.

keys:
  model=pop-small      a built-in model (pop-small, groove-small), or a folder that `musicgen train` or `export` made
  n=4                  pieces; the first has seed=0, the next 1 ...
  out=generated        folder
  bars=16              length, exactly; or seconds=30, or tokens=3072
  prompt=FILE.mid      goes on from a MIDI file, of which prompt_bars=4 are taken; lengths include them
  from_state=FILE      goes on where a piece stopped (written with states=last or states=bars)
  temperature=0.9 top_p=0.95 top_k= min_p=
                       how adventurous it is; if not given, as the model says
  key=Am pitches=C3-C6 polyphony=4 tempo=90-130
                       what new music keeps to, exactly; all of them go together
  chords="C Am F G"    chords that are suggested to it, a bar each, again and again
  tracks=piano         which tracks play; those of grooves are bass, drums and other
  grammar=false        no masks at all, as in the paper; mistakes are counted
  fork_at=8 variations=4
                       four continuations of each piece, which share eight bars
  wav=true             sound too; soundfont=FILE.sf2 for other instruments
  picture=false        no piano rolls
  states=last          keeps where a piece can be taken up again, as FILE.state; states=bars at every bar line
  overwrite=true       throws away pieces that are in the folder
  draw=0               seed of the positional noise, which all pieces share; that of the state after from_state
  batch=16             pieces written at once
  threads=1            of the CPU; by default 1 for small models, all for large ones. Other numbers round otherwise.

example: musicgen generate n=4 bars=16 wav=true
"""
LITERAL = ("model", "out", "prompt", "from_state", "soundfont", "key", "chords", "pitches", "tempo", "tracks")
"""Keys whose values may hold any character."""
LARGE = 20_000_000
"""Parameters of a model that is worth more than one thread."""
PIECE = re.compile(r"piece_\d+(_variation_\d+)?(_bar_\d+)?\.(mid|json|png|wav|state)")
"""Names of files that this command makes."""
MOST_THREADS = 1024


@dataclass(frozen=True)
class GenerateConfig:
    """What `conf/generate.yaml` holds, key by key."""

    model: str | None
    n: int
    out: Path
    overwrite: bool
    bars: int | None
    seconds: float | None
    tokens: int | None
    prompt: Path | None
    prompt_bars: int | None
    from_state: Path | None
    seed: int
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    draw: int | None
    grammar: bool
    key: str | None
    pitches: str | None
    polyphony: int | None
    tempo: str | None
    chords: str | None
    tracks: str | None
    fork_at: int | None
    variations: int
    picture: bool
    wav: bool
    soundfont: Path | None
    states: Literal["none", "last", "bars"]
    batch: int
    threads: int | None


def run(arguments: list[str]) -> int:
    """Generate."""
    composed = configure("generate", ABOUT, arguments, LITERAL)
    if composed is None:
        return 0
    config = build(GenerateConfig, composed)
    for name in ("n", "batch"):
        if getattr(config, name) < 1:
            raise UserError(f"{name}={getattr(config, name)}: takes 1 or more")
    check_threads(config.threads)
    if config.model is None:
        raise UserError("no model is given: write model=NAME or model=DIR (see `musicgen generate --help`)")
    old = check_folder(config.out, config.overwrite, _is_ours, (config.prompt, config.from_state, config.soundfont))
    with stoppable():
        return generate(config, composed, old)


def check_folder(
    out: Path, overwrite: bool, is_ours: Callable[[Path], bool], inputs: Iterable[Path | None]
) -> list[Path]:
    """See what of an earlier call has to go from a folder, before time is spent on what is to come there.

    Args:
        out: The folder.
        overwrite: Whether what an earlier call left there may be thrown away.
        is_ours: Whether a file or folder in it is such a thing.
        inputs: Files that are to be read.

    Returns:
        What has to go.

    Raises:
        UserError: The folder is not to be used.
    """
    if kind_of(out) in ("file", "other"):
        raise UserError(f"out={out}: exists and is not a folder; choose another name")
    if kind_of(out) is None:
        return []
    try:
        there = sorted(out.iterdir())
    except OSError as error:
        raise UserError(f"out={out}: cannot be looked into ({error.strerror}); choose another folder") from None
    if there and not overwrite:
        raise UserError(f"out={out}: is not empty; choose another folder, or add overwrite=true")
    for path in there:
        if not is_ours(path):
            raise UserError(f"out={out}: holds {path.name}, which is not from an earlier call; choose another folder")
    for file in inputs:
        if file is not None and there and out.resolve() in file.resolve().parents:
            raise UserError(f"{file}: is in the folder that is to be overwritten; choose another out=")
    return there


def _is_ours(path: Path) -> bool:
    """Whether a file is one that an earlier call may have made: a page of ours, or a piece."""
    if path.is_symlink() or not path.is_file():
        return False
    return is_our_page(path) if path.name == "index.html" else PIECE.fullmatch(path.name) is not None


def is_our_page(path: Path) -> bool:
    """Whether a file is a page that this command made."""
    from musicgen.web import SIGNATURE

    try:
        return path.name == "index.html" and SIGNATURE in path.read_text("utf-8", "replace")[:4000]
    except OSError:
        return False


def generate(config: GenerateConfig, composed: dict[str, Any], old: list[Path]) -> int:
    """Make what is asked for, and say where it is. The status is that of an interrupt if there was one."""
    from musicgen.runtime import keep_memory
    from musicgen.sampling import Request, Session, load_composer
    from musicgen.sampling.gallery import Gallery, Wanted

    keep_memory()
    names = [field.name for field in fields(Request)]
    request = Request(**{name: getattr(config, name) for name in names})
    request.constraints()  # a mistyped key should not take the time of loading a model
    composer = load_composer(str(config.model))
    session = Session(composer, request, config.batch)
    if session.prompt:
        print(f"prompt {session.prompt.report}")
    try_sound(config.wav, config.soundfont)
    composed |= {**asdict(session.sampler.taste), "threads": set_threads(config.threads, composer.model)}
    was_there = config.out.is_dir()
    make_folder(config.out, old)
    wanted = Wanted(config.picture, config.wav, config.soundfont, config.states)
    gallery = Gallery(config.out, session, composed, config.n, wanted)
    began = time.monotonic()
    tokens, interrupted = 0, False
    try:
        tokens = _write(session, gallery, config)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        gallery.close()
        if not was_there and not any(config.out.iterdir()):
            config.out.rmdir()
    for note in gallery.notes:
        print(f"musicgen: {note}", file=sys.stderr)
    if gallery.complete:
        page = gallery.write_page()
        took = time.monotonic() - began
        speed = f", {tokens:,} tokens in {took:.1f} s" if tokens else ""
        silent = "" if config.wav else " (wav=true adds sound)"
        print(f"{len(gallery.complete)} of {config.n * config.variations} pieces{speed}: open {page}{silent}")
    if interrupted:
        raise KeyboardInterrupt
    return 0


def _write(session: Session, gallery: Gallery, config: GenerateConfig) -> int:
    """Write all pieces, with a bar that shows how far they are, and say how many tokens that took."""
    from tqdm import tqdm

    bars = session.sampler.constraints.bars
    total = None
    if bars is not None:
        shared = (config.fork_at or 0) - session.bars_begun if config.fork_at else 0
        total = config.n * (shared + config.variations * (bars - session.bars_begun - shared))
    tokens = 0
    with tqdm(total=total, unit="bar", disable=None, dynamic_ncols=True) as progress:
        shown = began = time.monotonic()
        for step in session.run(config.n, keep=config.states == "bars"):
            gallery.add(step)
            tokens += 1
            if step.take.at_bar_line:
                progress.update()
            now = time.monotonic()
            if now - shown > 0.5:
                shown = now
                progress.set_postfix_str(f"{tokens:,} tokens, {tokens / (now - began):,.0f} tokens/s")
    return tokens


def check_threads(threads: int | None) -> None:
    """See that a number of threads is one."""
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise UserError(f"threads={threads}: takes 1 to {MOST_THREADS}")


def set_threads(threads: int | None, model: PerformerLM) -> int:
    """Set the number of threads, and say it.

    Rounding depends on it, and a seed is to be the same piece in every call. So it is neither measured nor follows
    from how many pieces there are: a model that fits into a cache has one, a larger one is read from memory by all.
    """
    import torch

    chosen = threads or (1 if model.num_parameters() < LARGE else os.cpu_count() or 1)
    torch.set_num_threads(chosen)
    return chosen


def try_sound(wav: bool, soundfont: Path | None) -> None:
    """Play one note, if there is to be sound: what cannot be used is to be known before there is a piece to play."""
    if not wav and soundfont is not None:
        raise UserError(f"soundfont={soundfont}: is for sound; add wav=true")
    if not wav:
        return
    from musicgen.midi.score import Score, make_notes
    from musicgen.midi.sound import render_wav

    render_wav(Score(480, make_notes([0], [10], [60], 64)), soundfont)


def make_folder(out: Path, old: Iterable[Path]) -> None:
    """A folder, without what an earlier call left there. The folder itself stays: it may be a link, or where we are."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path in old:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        raise UserError(f"out={out}: cannot make this folder ({error.strerror}), give another out=") from None


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let a request to end (SIGTERM) be an interrupt, as Ctrl-C is."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
