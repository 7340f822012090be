"""Rendering a `Score` to a WAV file with a soundfont.

Design note: this needs no system package. Our own synthesiser (synthesis.py) plays the small soundfont that comes with
pretty_midi. It runs in a child process, because a soundfont may be malformed. FluidSynth is an option.
"""

from __future__ import annotations

import importlib.util
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.files import kind_of
from musicgen.midi.score import Score
from musicgen.midi.synthesis import TAIL, synthesise, to_integers
from musicgen.midi.write import midi_bytes, playable
from musicgen.subprocess_call import SubprocessCall, SubprocessError

Synthesiser = Literal["auto", "fluidsynth"]

LONGEST_SECONDS = 3600.0


def render_wav(
    score: Score, soundfont: Path | None = None, sample_rate: int = 44_100, synthesiser: Synthesiser = "auto"
) -> bytes:
    """The sound of a score as a WAV file: 16 bits, stereo, with its loudest sample at -1 dB.

    Args:
        score: The score. Notes that MIDI cannot express are left out.
        soundfont: An .sf2 file (or .sf3, for FluidSynth). By default, the small one of pretty_midi.
        sample_rate: Frames per second.
        synthesiser: `auto` is our own; `fluidsynth` is the program of this name, if it is installed.

    Raises:
        UserError: There are no notes, the piece is too long, or the soundfont cannot be used.
    """
    score = score.replace(notes=playable(score.notes))
    if not len(score.notes):
        raise UserError("no notes, so there is nothing to hear")
    if score.duration > LONGEST_SECONDS:
        raise UserError(f"{score.duration / 60:,.0f} minutes are too long for a sound file, the limit is one hour")
    soundfont = soundfont or default_soundfont()
    if kind_of(soundfont) != "file":
        raise UserError(f"{soundfont}: there is no such soundfont")
    # Four times the time of our synthesiser on a slow core, and memory for the sound and the memory-mapped font.
    seconds = 30 + score.duration + len(score.notes) / 500
    megabytes = 1024 + (soundfont.stat().st_size + int((score.duration + TAIL) * sample_rate) * 32) // 1_000_000
    if synthesiser == "fluidsynth":
        samples = _run_fluidsynth(score, soundfont, sample_rate, seconds)
    else:
        child = SubprocessCall(synthesise, seconds, megabytes)
        try:
            samples = child(score, str(soundfont), sample_rate)
        except SubprocessError as error:
            raise UserError(f"{soundfont}: not a soundfont that can be played (rendering {error})") from None
        finally:
            child.close()
    size = samples.nbytes
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVE", b"fmt ", 16, 1, 2, sample_rate,
                         4 * sample_rate, 4, 16, b"data", size)  # fmt: skip
    return header + samples.tobytes()


def default_soundfont() -> Path:
    """The soundfont in the package pretty_midi, which every installation has."""
    package = importlib.util.find_spec("pretty_midi")  # not imported, because that is slow
    folders = (package.submodule_search_locations if package else None) or []
    found = [path for folder in folders for path in sorted(Path(folder).rglob("*.sf2"))]
    if not found:
        raise UserError("the package pretty_midi has no soundfont here: give one with soundfont=FILE.sf2")
    return found[0]


def _run_fluidsynth(score: Score, soundfont: Path, sample_rate: int, seconds: float) -> NDArray[np.int16]:
    program = shutil.which("fluidsynth")
    if program is None:
        raise UserError("synthesiser=fluidsynth: there is no program fluidsynth; install it, or choose auto")
    with tempfile.TemporaryDirectory() as folder:
        midi, raw = Path(folder, "score.mid"), Path(folder, "sound.raw")
        midi.write_bytes(midi_bytes(score))
        options = ["-n", "-i", "-q", "-g", "0.3", "-r", str(sample_rate), "-T", "raw", "-O", "s16", "-F", str(raw)]
        command = [program, *options, str(soundfont.resolve()), str(midi)]  # absolute: a name may begin with a dash
        try:
            run = subprocess.run(  # noqa: S603  (arguments, not a shell command)
                command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            raise UserError(f"{soundfont}: fluidsynth took more than {seconds:.0f} s and was stopped") from None
        if run.returncode or not raw.exists():
            reason = (run.stderr.decode("utf-8", "replace").strip().splitlines() or ["it gives no reason"])[-1]
            raise UserError(f"{soundfont}: fluidsynth cannot play it ({reason})")
        frames = np.fromfile(raw, "<i2").reshape(-1, 2)
    return to_integers(frames.T.astype(np.float32), str(soundfont))
