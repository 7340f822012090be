"""`musicgen render`: the picture and the sound of MIDI files.

Design note: files may stand alone on the command line, where other arguments are `key=value`, because a shell completes
and expands their names there. All files are read before anything is made, and all results of a file are ready before
any of them is written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from musicgen.cli.command import Command
from musicgen.cli.setup import make_folder
from musicgen.errors import UserError
from musicgen.files import atomic_writes, kind_of
from musicgen.options import option, options

if TYPE_CHECKING:
    from musicgen.languages.comparison import Comparison
    from musicgen.midi.score import Score

ABOUT = """\
usage: musicgen render FILE.mid [FILE.mid ...] [key=value ...]

Makes a picture (FILE.png, a piano roll with bars, chords and tracks) and a sound file (FILE.wav) of each MIDI file, in
the same folder or in another. Older pictures and sound files are replaced; MIDI files are only read.

{keys}

example: musicgen render song.mid out=pictures soundfont=grand.sf2
"""
SUFFIXES = (".mid", ".midi", ".kar")


@dataclass(frozen=True)
class RenderConfig:
    """The options of `musicgen render`."""

    input: Path | None = option(like="FILE.mid", help="the same as FILE.mid without a key")
    out: Path | None = option(like="DIR", help="folder for the results; the folder of each file if not given")
    picture: bool = option(True, help="draws FILE.png")
    wav: bool = option(True, help="plays to FILE.wav")
    soundfont: Path | None = option(
        like="FILE.sf2", help="sounds of the instruments; a small General MIDI soundfont is built in"
    )
    synthesiser: Literal["auto", "fluidsynth"] = option(
        "auto", help="auto is built in; fluidsynth needs the program of that name"
    )
    compare: bool = option(
        False, help="draws each file as tokens have it, with its own notes as outlines, and says what quantising did"
    )
    tokens: str | None = option(
        like="LANGUAGE", help="with compare, the token language, as a corpus or a model names it; if not given, piano's"
    )
    title: str | None = option(like="TEXT", help="a line above the picture; the name of the file if not given")


def run(arguments: list[str]) -> int:
    """Render files."""
    files = [_path(argument) for argument in arguments if _is_file(argument)]
    config = COMMAND.read([argument for argument in arguments if not _is_file(argument)])
    if config is not None:
        render([*([config.input] if config.input else []), *files], config)
    return 0


def _is_file(argument: str) -> bool:
    """Whether an argument is a file: it has no key, or no key of ours and the file exists."""
    key, equals, _ = argument.partition("=")
    if equals or argument.startswith("-"):
        return key not in options(RenderConfig) and kind_of(Path(argument)) == "file"
    return bool(argument)


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise UserError(f"{name}: there is no such user") from None


def render(files: list[Path], config: RenderConfig) -> None:
    """Draw and play each file as the config asks, and say where the results are."""
    from musicgen.midi.picture import draw_piano_roll
    from musicgen.midi.read import read_midi
    from musicgen.midi.sound import render_wav

    if not files:
        raise UserError("no file is given: write musicgen render FILE.mid (see `musicgen render --help`)")
    if not config.picture and not config.wav:
        raise UserError("picture=false wav=false: nothing is left to make")
    if config.compare and not config.picture:
        raise UserError("compare=true picture=false: a comparison is a picture; leave out one")
    if config.out is not None and kind_of(config.out) in ("file", "other"):
        raise UserError(f"out={config.out}: exists and is not a folder; choose another name")
    targets = [_target(file, config.out) for file in files]
    for number, target in enumerate(targets):
        if target in targets[:number]:
            raise UserError(f"{files[number]}: {target}.* would be made from another file too; render them one by one")
    scores = [read_midi(file) for file in files]
    pairs = [_compare(file, score, config) for file, score in zip(files, scores, strict=True)]
    for file, target, score, pair in zip(files, targets, scores, pairs, strict=True):
        began = time.monotonic()
        made: dict[str, bytes] = {}
        if config.picture:
            title = target.name if config.title is None else config.title
            shown, source = (score, None) if pair is None else (pair.after, pair.before)
            made["png"] = draw_piano_roll(shown, title, source=source)
        if config.wav:
            try:
                made["wav"] = render_wav(score, config.soundfont, synthesiser=config.synthesiser)
            except UserError as error:
                raise UserError(f"{file}: {error}") from None
        make_folder(target.parent)
        atomic_writes({target.with_name(f"{target.name}.{suffix}"): data for suffix, data in made.items()})
        names = " and ".join(f"{target}.{suffix}" for suffix in made)
        # A file name need not be valid text, and not every terminal can print such a name.
        told = f"{names} ({time.monotonic() - began:.1f} s)" + (f"\n{pair.report}" if pair else "")
        print(told.encode("utf-8", "replace").decode())


def _compare(file: Path, score: Score, config: RenderConfig) -> Comparison | None:
    """A file beside its tokens, if that is asked for."""
    from musicgen.languages.comparison import compare
    from musicgen.languages.registry import LANGUAGES, USUAL

    if not config.compare:
        return None
    language = LANGUAGES.get(config.tokens or USUAL)
    if language is None:
        raise UserError(f"tokens={config.tokens}: there is no such token language; choose {', '.join(LANGUAGES)}")
    try:
        pair = compare(language, score)
    except UserError as error:
        raise UserError(str(error).replace("the prompt:", f"{file}:", 1)) from None
    return pair._replace(report=pair.report.replace("the prompt:", f"{file}:", 1))


def _target(file: Path, out: Path | None) -> Path:
    """Path of the results without their suffix. Only the suffix of a MIDI file is taken away."""
    name = file.stem if file.suffix.lower() in SUFFIXES else file.name
    return (out or file.parent) / name


COMMAND = Command("render", ABOUT, RenderConfig, lambda config: render([], config))
