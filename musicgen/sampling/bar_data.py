"""Bars as plain data, which the pages and the studio draw and play."""

from __future__ import annotations

import json
from typing import Any

from musicgen.midi.bars import BarLines
from musicgen.midi.chord import Chord
from musicgen.midi.markers import continuation_start
from musicgen.midi.score import Score
from musicgen.sampling.live import between
from musicgen.sampling.piece import Piece

MOST_DRAWN = 200
"""A longer piece has only its picture on a page, which stays small."""

WRITTEN = {"M": "", "o": "dim", "+": "aug", "M7": "maj7", "o7": "dim7", "/o7": "m7b5"}
"""How chord charts write some qualities; the others they write as we do."""


def bar_data(score: Score, bar: int, lines: BarLines) -> dict[str, Any]:
    """One bar: where it is, and what begins in it. Notes are lists of start, end, pitch, velocity and track."""
    return {
        "bar": bar,
        "start": lines.tick(bar),
        "end": lines.tick(bar + 1),
        "notes": score.notes.tolist(),
        "tempos": score.tempos.tolist(),
        "chords": [(mark.tick, chord_name(mark.chord)) for mark in score.chords],
    }


def bars_of(score: Score, count: int) -> list[dict[str, Any]]:
    """The first bars of a piece."""
    lines = BarLines(score)
    return [bar_data(between([score], lines.tick(bar), lines.tick(bar + 1)), bar, lines) for bar in range(count)]


def frame_data(score: Score) -> dict[str, Any]:
    """What all bars of a piece share: tracks and resolution, and the length of the first bar."""
    tracks = [{"name": track.name, "program": track.program, "drums": track.is_drum} for track in score.tracks]
    return {"tracks": tracks, "ticks_per_beat": score.ticks_per_beat, "bar_ticks": BarLines(score).tick(1)}


def piece_json(piece: Piece) -> str:
    """A whole piece as JSON, for the roll of a page; empty if it is too long."""
    return _json(piece.score, piece.bars, piece.prompt_bars)


def score_json(score: Score) -> str:
    """The music of a MIDI file as JSON, for the roll of a page; empty if it is too long."""
    lines = BarLines(score)
    bars = lines.bar(int(score.notes["start"].max(initial=0))) + 1
    return _json(score, bars, lines.bar(continuation_start(score)))


def _json(score: Score, bars: int, prompt_bars: int) -> str:
    if bars > MOST_DRAWN:
        return ""
    music = {**frame_data(score), "prompt_bars": prompt_bars, "bars": bars_of(score, bars)}
    return json.dumps(music, separators=(",", ":"))


def chord_name(chord: Chord) -> str:
    """A chord as charts write it: `Am`, `F#m7`, `Bb`; empty for no chord."""
    return "" if chord.root < 0 else chord.root_name + WRITTEN.get(chord.quality, chord.quality)
