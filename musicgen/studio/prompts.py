"""MIDI files that people drop on the page: read in the guarded child process, and shown before and after quantising."""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from musicgen.errors import UserError
from musicgen.languages.constraints import parse_constraints
from musicgen.languages.language import Language
from musicgen.languages.prompt import load_prompt
from musicgen.midi.bars import BarLines
from musicgen.midi.read import MAX_BYTES, read_midi
from musicgen.midi.score import Score
from musicgen.options import fit, read_arguments
from musicgen.request import PromptReading
from musicgen.sampling.bar_data import frame_data
from musicgen.studio.keys import FOR_PROMPTS

MOST_PROMPTS = 32
MOST_SHOWN = 4000
"""Notes of a preview. More are not legible in one picture."""


class Upload(NamedTuple):
    """An uploaded file."""

    name: str
    score: Score


class Prompts:
    """The latest uploads. The oldest are forgotten."""

    def __init__(self) -> None:
        self._lock, self._uploads = threading.Lock(), OrderedDict[str, Upload]()

    def add(self, data: bytes, name: str) -> str:
        """Read a MIDI file, and return its id.

        Raises:
            UserError: It cannot be read.
        """
        if len(data) > MAX_BYTES:
            raise UserError(f"{name}: {len(data) / 1e6:,.0f} MB is too large, the limit is {MAX_BYTES >> 20} MB")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "upload.mid")
            path.write_bytes(data)
            try:
                score = read_midi(path)
            except UserError as error:
                raise UserError(str(error).replace(str(path), name)) from None
        key = secrets.token_hex(6)
        with self._lock:
            self._uploads[key] = Upload(name, score)
            while len(self._uploads) > MOST_PROMPTS:
                self._uploads.popitem(last=False)
        return key

    def get(self, key: str) -> Upload:
        """An upload.

        Raises:
            UserError: There is none.
        """
        with self._lock:
            upload = self._uploads.get(key)
        if upload is None:
            raise UserError(f"prompt={key[:40]}: no such file here; upload it again with POST /api/prompts")
        return upload


def reading_of(words: Mapping[str, str]) -> PromptReading:
    """How a file is read, from the words of an address.

    Raises:
        UserError: A word does not fit its key.
    """
    wishes = [f"{key}={words[key]}" for key in FOR_PROMPTS[1:] if key in words]
    return PromptReading(**fit(PromptReading, read_arguments(PromptReading, wishes, "studio")))


def preview(upload: Upload, language: Language, bars: int | None, reading: PromptReading) -> dict[str, Any]:
    """What quantising does to a file.

    Args:
        upload: The file.
        language: The token language that it becomes.
        bars: How many bars are taken; None for all.
        reading: How the file is read.

    Raises:
        UserError: It cannot be a prompt.
    """
    try:
        prompt = language.read_prompt(upload.score, bars, reading)
    except UserError as error:
        raise UserError(str(error).replace("the prompt:", f"{upload.name}:", 1)) from None
    played, _, _ = load_prompt(upload.score, reading)
    after = language.rendering(parse_constraints(), prompt.setting).decode(prompt.tokens)
    return {
        "name": upload.name,
        "bars": prompt.bars,
        "report": prompt.report.replace("the prompt:", f"{upload.name}:", 1),
        "seconds": round(upload.score.duration, 1),
        **frame_data(after),
        "lines": [BarLines(after).tick(bar) for bar in range(prompt.bars + 1)],
        "before": _in_ticks_of(played, after, prompt.bars),
        "after": after.notes[:MOST_SHOWN].tolist(),
        "tempos": after.tempos.tolist(),
    }


def _in_ticks_of(score: Score, other: Score, bars: int) -> list[Any]:
    """The notes of the first bars of a score with the resolution of another, whose empty bars may be left out."""
    notes, lines = score.notes.copy(), BarLines(other)
    bar_ticks = lines.tick(1)
    for name in ("start", "end"):
        notes[name] = np.rint(notes[name] * (other.ticks_per_beat / score.ticks_per_beat))
    if len(notes) and len(other.notes):
        skipped = int(notes["start"].min()) // bar_ticks - int(other.notes["start"].min()) // bar_ticks
        notes["start"] -= skipped * bar_ticks
        notes["end"] -= skipped * bar_ticks
    return notes[notes["start"] < lines.tick(bars)][:MOST_SHOWN].tolist()
