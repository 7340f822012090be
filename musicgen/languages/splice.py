"""Puts new bars into a piece of music, and changes nothing else of it.

Design note: tokens hold a piece on their grid, with one velocity or none of its other instruments. A piece whose bars
are filled keeps its own notes outside the gaps, as they were in its file. Only the new notes come from tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from musicgen.languages.grid import Integers, nearest
from musicgen.midi.score import DEFAULT_BPM, ChordMark, Score, make_tempos


class Span(NamedTuple):
    """A gap in time.

    Attributes:
        start, end: In beats of the piece.
        track: The number of the track in tokens that is filled; -1 for all.
    """

    start: float
    end: float
    track: int = -1


def splice(
    original: Score,
    filled: Score,
    spans: Sequence[Span],
    tracks: Sequence[tuple[int, ...]],
    grid: int,
    offset: float = 0.0,
    has_tempo: bool = False,
) -> Score:
    """A piece with new bars.

    Args:
        original: The piece.
        filled: The piece in tokens, with the new bars.
        spans: The gaps, in order.
        tracks: The tracks of the piece that each track in tokens comes from.
        grid: Steps of a beat on which tokens have notes.
        offset: Beats of the piece before the first of the tokens.
        has_tempo: Whether tokens hold tempos and chords, so that the new bars have their own.
    """
    names = list(original.tracks)
    for number, (own, track) in enumerate(zip(tracks, filled.tracks, strict=True)):
        if not own:
            tracks = [*tracks[:number], (len(names),), *tracks[number + 1 :]]
            names.append(track)
    used = np.bincount(original.notes["track"], minlength=len(names))
    score = original
    for span in spans:
        score = _without(score, span, tracks, grid)
        new = _inside(filled, span, offset, original.ticks_per_beat)
        new["track"] = np.array([max(own, key=lambda track: int(used[track])) for own in tracks])[new["track"]]
        new, rest = _fitted(new, score)
        score = score.replace(notes=np.concatenate([rest, new]))
        if has_tempo:
            score = _with_tempos(score, original, filled, span, offset)
    present = set(score.notes["track"].tolist())
    while len(names) > len(original.tracks) and len(names) - 1 not in present:
        names.pop()
    return score.replace(tracks=tuple(names))


def _without(score: Score, span: Span, tracks: Sequence[tuple[int, ...]], grid: int) -> Score:
    """A piece without the notes that begin in a gap. Those that end in it end where it begins."""
    own = [track for number, part in enumerate(tracks) if span.track in (-1, number) for track in part]
    notes = score.notes.copy()
    is_own = np.isin(notes["track"], own)
    start, end = (nearest(notes[name], score.ticks_per_beat, grid) for name in ("start", "end"))
    first, last = span.start * grid, span.end * grid
    is_cut = is_own & (start < first) & (end > first) & (end < last)
    begin = round(span.start * score.ticks_per_beat)
    notes["end"] = np.where(is_cut, np.maximum(begin, notes["start"] + 1), notes["end"])
    return score.replace(notes=notes[~(is_own & (start >= first) & (start < last))])


def _inside(filled: Score, span: Span, offset: float, ticks_per_beat: int) -> np.ndarray:
    """The new notes of a gap, in ticks of the piece."""
    beat = filled.notes["start"] / filled.ticks_per_beat + offset
    notes = filled.notes[(beat >= span.start) & (beat < span.end)].copy()
    notes = notes[(notes["track"] == span.track) | (span.track < 0)]
    for name in ("start", "end"):
        notes[name] = np.rint((notes[name] / filled.ticks_per_beat + offset) * ticks_per_beat)
    return notes


def _fitted(new: np.ndarray, score: Score) -> tuple[np.ndarray, np.ndarray]:
    """New notes that end before their key is struck again, and the other notes, which end before new ones begin."""
    rest = score.notes.copy()
    for note in new:
        same = (rest["track"] == note["track"]) & (rest["pitch"] == note["pitch"])
        later = rest["start"][same & (rest["start"] >= note["start"])]
        note["end"] = max(min(int(note["end"]), int(later.min(initial=note["end"]))), int(note["start"]) + 1)
        over = same & (rest["start"] < note["start"]) & (rest["end"] > note["start"])
        rest["end"][over] = note["start"]
    return new, rest


def _with_tempos(score: Score, original: Score, filled: Score, span: Span, offset: float) -> Score:
    """The tempos and chords of the new bars inside a gap, and those of the piece outside."""
    first, last = (round(beat * score.ticks_per_beat) for beat in (span.start, span.end))

    def there(ticks: Integers) -> Integers:
        return np.rint((ticks / filled.ticks_per_beat + offset) * score.ticks_per_beat).astype(np.int64)

    def joined(own: list[tuple[int, object]], new: list[tuple[int, object]], usual: object) -> list[tuple[int, object]]:
        inside = [change for change in new if first <= change[0] < last]
        after = next((value for tick, value in reversed(own) if tick <= last), usual)
        outside = [change for change in own if not first <= change[0] < last]
        back = [] if any(tick == last for tick, _ in own) or after is None else [(last, after)]
        changes = sorted([*outside, *inside, *back], key=lambda change: change[0])
        return [change for place, change in enumerate(changes) if not place or change[1] != changes[place - 1][1]]

    ticks = there(filled.tempos["tick"]).tolist()
    tempos = joined(score.tempos.tolist(), list(zip(ticks, filled.tempos["bpm"].tolist(), strict=True)), DEFAULT_BPM)
    chords = [(int(there(np.array([mark.tick]))[0]), mark.chord) for mark in filled.chords]
    marks = joined([(mark.tick, mark.chord) for mark in score.chords], list(chords), None)
    has_chords = bool(original.chords)
    return score.replace(
        tempos=make_tempos(tempos),  # type: ignore[arg-type]
        chords=tuple(ChordMark(tick, chord) for tick, chord in marks) if has_chords else (),  # type: ignore[arg-type]
    )
