"""`musicgen render`: the picture and the sound of MIDI files.

The hard choice: files may stand alone on the line, where every other argument is `key=value`, because a shell
completes and expands their names there. All files are read before anything is made, and all that is made of a file is
ready before any of it is written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from musicgen.cli.compose import configure
from musicgen.cli.typed import build
from musicgen.errors import UserError
from musicgen.files import atomic_write, kind_of

ABOUT = """\
usage: musicgen render FILE.mid [FILE.mid ...] [key=value ...]

Makes a picture (FILE.png, a piano roll with bars, chords and tracks) and a sound file (FILE.wav) of each MIDI file,
beside it or in another folder. Those that are there from before are replaced; MIDI files are only read.

keys:
  input=FILE.mid       the same as FILE.mid without a key
  out=DIR              folder for what is made; the folder of each file if not given
  picture=false        makes no picture
  wav=false            makes no sound
  soundfont=FILE.sf2   sounds of the instruments; a small General MIDI soundfont if not given
  synthesiser=NAME     auto (the default, built in) or fluidsynth, if that program is installed
  title=TEXT           line above the picture; the name of the file if not given

example: musicgen render song.mid out=pictures soundfont=grand.sf2
"""
KEYS = ("input", "out", "picture", "wav", "soundfont", "synthesiser", "title")
LITERAL = ("input", "out", "soundfont", "title")
"""Keys whose values may hold any character."""
SUFFIXES = (".mid", ".midi", ".kar")


@dataclass(frozen=True)
class RenderConfig:
    """What `conf/render.yaml` holds, key by key."""

    input: Path | None
    out: Path | None
    picture: bool
    wav: bool
    soundfont: Path | None
    synthesiser: Literal["auto", "fluidsynth"]
    title: str | None


def run(arguments: list[str]) -> int:
    """Render."""
    files = [_path(argument) for argument in arguments if _is_file(argument)]
    composed = configure("render", ABOUT, [argument for argument in arguments if not _is_file(argument)], LITERAL)
    if composed is None:
        return 0
    config = build(RenderConfig, composed)
    render([*([config.input] if config.input else []), *files], config)
    return 0


def _is_file(argument: str) -> bool:
    """Whether an argument is the name of a file: it has no key, or is not one of ours but a file that is there."""
    key, equals, _ = argument.partition("=")
    if equals or argument.startswith("-"):
        return key not in KEYS and kind_of(Path(argument)) == "file"
    return bool(argument)


def _path(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:
        raise UserError(f"{name}: there is no such user") from None


def render(files: list[Path], config: RenderConfig) -> None:
    """Make what the config asks for of each file, and say where it is.

    Raises:
        UserError: A file cannot be read, or nothing can be made of it.
    """
    from musicgen.midi.picture import draw_piano_roll
    from musicgen.midi.read import read_midi
    from musicgen.midi.sound import render_wav

    if not files:
        raise UserError("no file is given: write musicgen render FILE.mid (see `musicgen render --help`)")
    if not config.picture and not config.wav:
        raise UserError("picture=false wav=false: nothing is left to make")
    if config.out is not None and kind_of(config.out) in ("file", "other"):
        raise UserError(f"out={config.out}: exists and is not a folder; choose another name")
    targets = [_target(file, config.out) for file in files]
    for number, target in enumerate(targets):
        if target in targets[:number]:
            raise UserError(f"{files[number]}: {target}.* would be made of another file too; render them one by one")
    scores = [read_midi(file) for file in files]
    for file, target, score in zip(files, targets, scores, strict=True):
        began = time.monotonic()
        made: dict[str, bytes] = {}
        if config.picture:
            made["png"] = draw_piano_roll(score, target.name if config.title is None else config.title)
        if config.wav:
            try:
                made["wav"] = render_wav(score, config.soundfont, synthesiser=config.synthesiser)
            except UserError as error:
                raise UserError(f"{file}: {error}") from None
        _make_folder(target.parent)
        for suffix, data in made.items():
            atomic_write(target.with_name(f"{target.name}.{suffix}"), data)
        names = " and ".join(f"{target}.{suffix}" for suffix in made)
        # A name that is no text can be written to a disk but not to every terminal.
        print(f"{names} ({time.monotonic() - began:.1f} s)".encode("utf-8", "replace").decode())


def _target(file: Path, out: Path | None) -> Path:
    """Where what is made goes, without its suffix. Nothing but a MIDI file's own suffix is taken away."""
    name = file.stem if file.suffix.lower() in SUFFIXES else file.name
    return (out or file.parent) / name


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot make this folder ({error.strerror}), give another out=") from None
