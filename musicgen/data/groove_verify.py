"""What can be wrong with the notes and the splits of a corpus of grooves that can be opened.

The hard choice: all notes are looked at at once, as columns. A sentence then names the first groove that has such a
note, and not each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from musicgen.data.groove_corpus import IN_DOMAIN, GrooveCorpus
from musicgen.data.groove_kin import check_kin
from musicgen.data.groove_table import BAR
from musicgen.errors import UserError
from musicgen.tokens.groove_quantise import PITCHES


def check_grooves(corpus: GrooveCorpus) -> Iterator[str]:
    """All that is wrong, in sentences."""
    songs = corpus.songs()
    expected, is_in_place = 0, True
    for song in songs:
        if song.offset != expected:
            is_in_place = False
            yield f"{song.path}: its notes are not where the index has them"
        expected = song.offset + song.notes
    if is_in_place:
        yield from _check_notes(corpus)
    try:
        check_kin(songs)
    except UserError as error:
        yield str(error)
    trained = {song.style for song in corpus.songs("train")}
    for split in IN_DOMAIN:
        strangers = (song for song in corpus.songs(split) if song.style not in trained)
        yield from (f"{song.path} ({split}): of the style {song.style}, which is not trained on" for song in strangers)


def _check_notes(corpus: GrooveCorpus) -> Iterator[str]:
    """Every note must be in range, on the track that the index says, and end before its pitch is struck again."""
    songs, notes = corpus.songs(), corpus.notes
    owner = np.repeat(np.arange(len(songs)), [song.notes for song in songs])
    sizes = [track.notes for song in songs for track in song.tracks]
    track = np.repeat([number for song in songs for number in range(len(song.tracks))], sizes)
    bars = np.array([song.bars for song in songs])[owner]
    start, end, pitch = notes["start"], notes["end"], notes["pitch"]
    order = np.lexsort((start, pitch, track, owner))
    is_same = (np.diff(owner[order]) == 0) & (np.diff(track[order]) == 0) & (np.diff(pitch[order]) == 0)
    overlaps = np.zeros(len(notes), bool)
    overlaps[order[1:]] = is_same & (start[order[1:]] < end[order[:-1]])
    faults: dict[str, NDArray[np.bool_]] = {
        "a note outside its bars": (start < 0) | (start >= BAR * bars) | (end <= start),
        "a note of no pitch or velocity that there is": (pitch < 0)
        | (pitch >= PITCHES)
        | (notes["velocity"] < 1)
        | (notes["velocity"] > 127),
        "a note on another track than the index says": notes["track"] != track,
        "a note on a pitch that still sounds": overlaps,
    }
    for sentence, is_wrong in faults.items():
        if is_wrong.any():
            yield f"{songs[owner[int(np.argmax(is_wrong))]].path}: {sentence}"
