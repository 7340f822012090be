"""The bars of a band that are a prompt, and what a report says about them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from musicgen.languages.grid import TokenError, counted, nearest
from musicgen.languages.groove.quantise import Trio, TrioQuantisation, choose_trio, quantise_trio
from musicgen.languages.groove.time import BAR, TICKS
from musicgen.languages.metre import COMMON, in_metres
from musicgen.languages.prompt import taken_bars
from musicgen.midi.score import Notes, Score

KICKS, SNARES = (35, 36), (37, 38, 39, 40)
"""Pitches of General MIDI's bass drums; of its snares, side stick and clap."""
MOST_NAMES = 6


class Window(NamedTuple):
    """The bars of a band that are taken.

    Attributes:
        score: The band, in bars of 4/4.
        notes: Their trio, in ticks of 12 per beat from their first bar on.
        bars: How many bars they are.
        first: The number of the first of them, counted from 0.
        trio: The tracks that the trio comes from.
        report: What was done to them.
        missing: Which instruments of a groove do not play in them; empty if all do.
    """

    score: Score
    notes: Notes
    bars: int
    first: int
    trio: Trio
    report: str
    missing: str


def take_window(score: Score, asked: int | None, other: str | int | None) -> Window:
    """The first bars of a band in which something plays, or all of them.

    Args:
        score: The band.
        asked: How many bars; None for all.
        other: The track that joins bass and drums, if the user chose it.

    Raises:
        TokenError: The bars cannot be expressed in tokens.
        UserError: There is no such track, or no bars are wanted.
    """
    if not len(score.notes):
        raise TokenError("no notes")
    read = in_metres(score, [COMMON])
    score = read.score
    bar = nearest(score.notes["start"], score.ticks_per_beat, TICKS) // BAR
    first = int(bar.min())
    available = int(bar.max()) - first + 1
    bars, words = taken_bars(asked, available)
    taken = score.replace(notes=score.notes[bar < first + bars])
    trio = choose_trio(score, taken.notes, other)
    quantised, quantisation = quantise_trio(taken, trio)
    notes = quantised.notes.copy()
    notes["start"] -= first * BAR
    notes["end"] -= first * BAR
    silence = [f"{counted(first, 'empty bar')} skipped"] if first else []
    metre = filter(None, [read.done, read.cut if bars == available else ""])
    report = ", ".join([str(quantisation), *metre, *_players(taken, trio, quantisation), *silence])
    return Window(score, notes, bars, first, trio, f"{report}; {words}", _missing(taken, trio))


def _players(score: Score, trio: Trio, quantisation: TrioQuantisation) -> list[str]:
    """Which track is the other instrument, and which tracks are left out."""
    count = np.bincount(score.notes["track"], minlength=len(score.tracks)).tolist()
    chosen = {number for tracks in trio for number in tracks}
    others = [number for number in np.argsort(count)[::-1].tolist() if number not in chosen and count[number]]
    names = [f"{score.tracks[number].name or f'track {number + 1}'} ({count[number]:,})" for number in others]
    if len(names) > MOST_NAMES:
        names[MOST_NAMES:] = [f"{len(names) - MOST_NAMES} more"]
    words = [f"other is {score.tracks[number].name or f'track {number + 1}'}" for number in trio[2] if names]
    return [*words, f"{counted(quantisation.dropped, 'note')} left out: {', '.join(names)}"] if names else words


def _missing(score: Score, trio: Trio) -> str:
    """A sentence about instruments of a groove that do not play."""
    bass, drums = (score.notes["pitch"][np.isin(score.notes["track"], tracks)] for tracks in trio[:2])
    plays = {"bass": len(bass) > 0, "kick": np.isin(drums, KICKS).any(), "snare": np.isin(drums, SNARES).any()}
    silent = [name for name, is_there in plays.items() if not is_there]
    return f"no {' and no '.join(silent)} plays in these bars" if silent else ""
