"""Small folders of accompaniments for tests, and corpora made of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from corpora import put

from musicgen.data.corpus import Corpus
from musicgen.data.prepare import compose_songs, gather
from musicgen.languages import Groove
from musicgen.languages.groove.synthetic import compose_groove
from musicgen.midi.score import NOTE, Notes, Score, Track, make_notes


def grooves_in_memory(songs: int, bars: int = 16, seed: int = 0) -> Corpus:
    return gather(Groove(), compose_songs(Groove(), songs, bars, seed), seed, None, {"source": "synthetic_grooves"})


def style_folder(folder: Path, families: int, styles: int = 2, bars: int = 8) -> Path:
    """`family/style.a.mid` and `.b.mid`."""
    for family in range(families):
        for style in range(styles):
            for number, letter in enumerate("ab"):
                score = compose_groove(number, family * 3 + style, bars)
                put(score, folder / f"family {family}" / f"style{style}.{letter}.mid")
    return folder


def later(score: Score, bars: int, before: Notes | None = None) -> Score:
    """The same after some bars, with other notes before."""
    notes = score.notes.copy()
    notes["start"] += bars * 4 * score.ticks_per_beat
    notes["end"] += bars * 4 * score.ticks_per_beat
    return score.replace(notes=np.concatenate([np.empty(0, NOTE) if before is None else before, notes]))


def groove2groove(folder: Path, styles: int, bars: int = 8) -> Path:
    """As the data set has them: two songs in each of two styles of a family, with a count-in and odd names."""
    clicks = make_notes(
        [0, 480, 960, 1920, 1930], [10, 490, 970, 1930, 2500], [37, 37, 60, 37, 43], 90, [1, 1, 2, 1, 0]
    )
    for number in range(styles):
        for letter in "ab":
            for song in range(2):
                score = later(compose_groove(song, 3 * number + (letter == "b"), bars), 2, clicks)
                names = ("BB Bass", "BB Drums", "BB Guitar", "BB Piano", "BB Piano")
                tracks = tuple(
                    Track(name, 58 if name == "BB Bass" else track.program, track.is_drum)
                    for name, track in zip(names, score.tracks, strict=False)
                )
                name = f"song{number}{song}.ST{number}_{letter}.mid"
                put(score.replace(tracks=tracks), folder / "midi" / "train" / "fixed" / name)
    put(compose_groove(0, 0, bars), folder / "midi" / "test" / "fixed" / "other.X_a.mid")
    return folder
