"""`musicgen generate`: writes new pieces, or continues a prompt, as MIDI, pictures and sound.

Design note: mistakes are found before the first token. Model, prompt, constraints and folder are read and checked, and
only then is the folder made.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from musicgen.cli.command import Command
from musicgen.cli.setup import (
    PieceOptions,
    is_our_page,
    is_record,
    is_state,
    make_folder,
    set_threads,
    try_sound,
)
from musicgen.errors import UserError
from musicgen.files import check_output, only_writer, strangers
from musicgen.options import option, plain
from musicgen.request import RequestOptions

if TYPE_CHECKING:
    from musicgen.sampling import FillSession, Session
    from musicgen.sampling.gallery import Gallery

ABOUT = """\
usage: musicgen generate [key=value ...]

Writes pieces with a model: out/piece_0.mid and so on, each with its record (.json), its piano roll (.png) and, if you
ask for it, its sound (.wav). out/index.html shows them all.

The length is bars, seconds or tokens (16 bars if none is given). How tokens are chosen (temperature, top_p, top_k,
min_p) comes from the model's bundle by default. key, pitches, polyphony, tempo and chords can be combined.

fill=9-12 writes bars of the prompt anew and keeps everything else of it. The model must have been trained for it.

{keys}

example: musicgen generate n=4 bars=16 wav=true
"""
PIECE = re.compile(r"(piece_\d+(?:_variation_\d+)?)(?:\.(?:mid|json|png|wav)|_bar_\d+\.state)")
"""Names of files that this command makes."""


@dataclass(frozen=True)
class _First:
    """What help shows first."""

    model: str | None = option(
        "pop-small",
        needed=True,
        like="NAME or DIR",
        help="a built-in model (pop-small, groove-small), or a folder from `musicgen train` or `musicgen export`",
    )
    n: int = option(4, least=1, help="how many pieces; the first has the seed, the next has the next seed")
    out: Path = option(Path("generated"), help="folder for the pieces")
    overwrite: bool = option(False, help="true deletes the pieces that are in the folder")


@dataclass(frozen=True)
class GenerateConfig(PieceOptions, RequestOptions, _First):
    """The options of `musicgen generate`: those of a request, and what is made of its pieces."""

    states: Literal["none", "last", "bars"] = option(
        "none", help="saves states for from_state=: at the end of each piece, or at every bar line"
    )


def _foreign(out: Path) -> list[str]:
    """Names in a folder that are neither pieces, which have our record or are states, nor our page."""

    def is_ours(path: Path) -> bool:
        match = PIECE.fullmatch(path.name)
        if match is None:
            return is_our_page(path)
        return is_state(path) if path.suffix == ".state" else is_record(out / f"{match[1]}.json")

    return strangers(out, is_ours)


def generate(config: GenerateConfig) -> None:
    """Write the requested pieces, and print where they are."""
    inputs = [
        Path(file) for file in (config.prompt, config.from_state, config.soundfont) if isinstance(file, str | Path)
    ]
    old = check_output(config.out, "generated pieces", _foreign, may_replace=config.overwrite, inputs=inputs)
    _generate(config, old)


def _generate(config: GenerateConfig, old: list[Path]) -> None:
    from musicgen.runtime import keep_memory
    from musicgen.sampling import FillSession, Request, Session, load_music_model
    from musicgen.sampling.gallery import Gallery, Wanted

    keep_memory()
    names = [field.name for field in fields(Request)]
    request = Request(**{name: getattr(config, name) for name in names})
    request.constraints()  # finds mistakes before the slow loading of a model
    if config.rank is not None and config.rank < config.n:
        raise UserError(f"rank={config.rank}: takes {config.n} or more, the pieces that are wanted (n={config.n})")
    if config.fill is not None and config.states != "none":
        raise UserError(f"states={config.states} and fill=: a piece that is filled has no state to continue from")
    music_model = load_music_model(str(config.model), config.engine)
    session = (Session if config.fill is None else FillSession)(music_model, request, config.batch)
    if session.prompt:
        print(f"prompt {session.prompt.report}")
    try_sound(config.wav, config.soundfont)
    threads = set_threads(config.threads, music_model.model)
    record = plain(config) | asdict(session.sampling) | {"threads": threads, "engine": music_model.engine.engine_name}
    was_there = config.out.is_dir()
    make_folder(config.out)
    wanted = Wanted(config.picture, config.wav, config.soundfont, config.states)
    name = session.name(config.n) if isinstance(session, Session) else str
    gallery = Gallery(config.out, music_model, record, name, wanted)
    with only_writer(config.out, "out"):
        make_folder(config.out, old)
        try:
            _write_all(session, gallery, config)
        finally:
            if not was_there and not any(config.out.iterdir()):
                config.out.rmdir()


def _write_all(session: Session | FillSession, gallery: Gallery, config: GenerateConfig) -> None:
    """Write all pieces and their page. An interrupt leaves those that are complete."""
    from musicgen.sampling import Session

    began = time.monotonic()
    tokens, interrupt = 0, None
    try:
        if isinstance(session, Session):
            tokens = _write(session, gallery, config)
        else:
            _fill(session, gallery, config)
    except KeyboardInterrupt as error:
        interrupt = error
    finally:
        gallery.close()
    for note in gallery.notes:
        print(f"musicgen: {note}", file=sys.stderr)
    if gallery.complete:
        page = gallery.write_page([session.prompt.report] if session.prompt else [])
        took = time.monotonic() - began
        speed = f", {tokens:,} tokens in {took:.1f} s" if tokens else ""
        silent = "" if config.wav else " (wav=true adds sound files)"
        print(f"{len(gallery.complete)} of {config.n * config.variations} pieces{speed}: open {page}{silent}")
    if interrupt is not None:
        raise interrupt


def _write(session: Session, gallery: Gallery, config: GenerateConfig) -> int:
    """Write all pieces with a progress bar, and return how many tokens that took."""
    from tqdm import tqdm

    bars = session.constraints.bars
    total = None
    if bars is not None:
        shared = (config.fork_at or 0) - session.bars_begun if config.fork_at else 0
        total = config.n * (shared + config.variations * (bars - session.bars_begun - shared))
    tokens = 0
    with tqdm(total=total, unit="bar", disable=None, dynamic_ncols=True) as progress:
        shown = began = time.monotonic()
        for step in session.run(config.n, keep_states=config.states == "bars"):
            gallery.add(step)
            tokens += 1
            if step.piece.at_bar_line:
                progress.update()
            now = time.monotonic()
            if step.is_last or now - shown > 0.5:
                shown = now
                progress.set_postfix_str(f"{tokens:,} tokens, {tokens / (now - began):,.0f} tokens/s")
    return tokens


def _fill(session: FillSession, gallery: Gallery, config: GenerateConfig) -> None:
    """Fill the gaps of a piece several times."""
    from tqdm import tqdm

    with tqdm(total=config.n, unit="fill", disable=None, dynamic_ncols=True) as progress:
        for number, piece in enumerate(session.pieces(config.n)):
            gallery.put(piece, f"piece_{number:0{len(str(config.n - 1))}d}")
            progress.update()


run = Command("generate", ABOUT, GenerateConfig, generate)
