"""Small folders of music for tests, in the layouts that there are, and corpora made of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from musicgen.data.corpus import Corpus
from musicgen.data.prepare import compose_songs, gather
from musicgen.languages import Remi
from musicgen.languages.remi.synthetic import compose
from musicgen.languages.song import Read
from musicgen.midi.chord import ROOTS, Chord
from musicgen.midi.score import Score, TimeSignature, Track, make_notes, make_tempos
from musicgen.midi.write import midi_bytes

HARTE = {
    "M": "maj", "m": "min", "o": "dim", "+": "aug", "7": "7", "M7": "maj7", "m7": "min7", "o7": "dim7", "/o7": "hdim7",
    "sus2": "sus2", "sus4": "sus4",
}  # fmt: skip


def put(score: Score, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(midi_bytes(score))
    return path


def pop1k7(folder: Path, songs: int, bars: int = 8) -> Path:
    for number in range(songs):
        put(compose(number, bars), folder / f"src_{number % 4 + 1:03d}" / f"{number}.mid")
    return folder


def pop909_song(piece: Score, folder: Path, times: np.ndarray | None = None) -> Path:
    """A song as POP909 has it: three tracks at one tempo, and what is to be known of them in text files."""
    beats = piece.end // 480 + 6
    times = 0.7 + 0.55 * np.arange(beats) if times is None else times
    moments = lambda ticks: np.interp(np.asarray(ticks) / 480, np.arange(len(times)), times)  # noqa: E731
    ticks = lambda values: np.rint(moments(values) * 960).astype(np.int64)  # noqa: E731
    track = np.digitize(piece.notes["pitch"], [55, 70])  # no pitch is in two
    notes = make_notes(
        ticks(piece.notes["start"]), ticks(piece.notes["end"]), piece.notes["pitch"], piece.notes["velocity"], track
    )
    tracks = (Track("PIANO"), Track("BRIDGE"), Track("MELODY"))
    path = put(
        Score(480, notes, tracks=tracks, tempos=make_tempos([(0, 120.0)]), time_signatures=(TimeSignature(0, 1, 4),)),
        folder / f"{folder.name}.mid",
    )
    lines = [f"{time:.6f} {float(i % 2 == 0)} {float(i % 4 == 0)}" for i, time in enumerate(times)]
    (folder / "beat_midi.txt").write_text("\n".join(lines) + "\n")
    starts = [float(moments(mark.tick)) for mark in piece.chords]
    ends = [*starts[1:], float(times[-1])]
    (folder / "chord_midi.txt").write_text(
        "".join(
            f"{start:.6f}\t{end:.6f}\t{harte(mark.chord)}\n"
            for start, end, mark in zip(starts, ends, piece.chords, strict=True)
        )
    )
    return path


def harte(chord: Chord) -> str:
    return f"{ROOTS[chord.root]}:{HARTE[chord.quality]}"


def copy_of(score: Score, seed: int, *, semitones: int = 0, bars: int = 0, changed: float = 0.0) -> Score:
    """Nearly the same song: transposed, later by some bars, at another tempo, with other pitches here and there."""
    random = np.random.default_rng(seed)
    notes = score.notes.copy()
    notes["pitch"] += semitones
    notes["pitch"][random.random(len(notes)) < changed] += 1
    notes["start"] += 1920 * bars
    notes["end"] += 1920 * bars
    return score.replace(notes=notes, tempos=make_tempos([(0, 71.0)]), chords=())


def encode_song(score: Score, name: str, sha256: str) -> Read:
    return Remi().read(score, name, sha256, "folder", None)


def in_memory(songs: int, bars: int = 8, seed: int = 0) -> Corpus:
    return gather(Remi(), compose_songs(Remi(), songs, bars, seed), seed, None, {"source": "synthetic"})


def on_disk(folder: Path, scores: Iterable[tuple[str, Score]], lists: dict[str, str] | None = None) -> Path:
    """A corpus of given scores, under given names."""
    results = [encode_song(score, name, f"{number:064x}") for number, (name, score) in enumerate(scores)]
    about: dict[str, Any] = {"source": "test"}
    folder.mkdir()
    gather(Remi(), results, 0, lists, about).write(folder)
    return folder
