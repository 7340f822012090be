"""Finds the beats and downbeats of a performance from its notes.

Three steps. The *period* of the beat is the one whose half multiples all repeat the onsets (autocorrelation), near a
usual tempo. *Beats* are the path through the onsets that is strongest and steadiest (dynamic programming over time and
last interval, so that the tempo may drift). *Downbeats* are the path through the beats on which long notes, basses and
changes of harmony fall, in bars of four or three.

Design note: the path is computed in blocks that are shorter than the shortest interval. No beat of a block depends on
another one, so a block is a few array operations, and a song takes a tenth of a second without compiled code. The
constants were chosen on 150 songs of POP909; `benchmarks/beats.py` measures on the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.score import BEAT, Beats, Score

Floats = NDArray[np.float64]

RATE = 100
"""Frames per second."""
SMEARED = 0.02
"""Standard deviation, in seconds, by which onsets that are meant to be together differ."""
SLOWEST, FASTEST = 0.25, 1.72
"""Shortest and longest beat in seconds: 240 and 35 beats per minute."""
USUAL_TEMPO, OCTAVES = 96.0, 0.5
"""Tempos are this likely: a bell curve around the usual one."""
CLARITY = 14.0
"""How much the autocorrelation counts against the usual tempo."""
WINDOW, HOP = 16, 8
"""Seconds in which a tempo is taken to be steady, and from one window to the next."""
DRIFT = 0.2
"""The tempo may differ from its mean by this share."""
STEADY = 60.0
"""How much a change of interval costs."""
SLIP = 3.0
"""How much it costs that a bar has another length."""
THREE = 2.5
"""How much stronger the downbeats of bars of three must be than those of bars of four."""
LONGEST = 3600.0
"""Seconds of music that are tracked at most."""
BASS = 52
"""Pitches below this count as basses: E under middle C."""


class _Played(NamedTuple):
    """Notes of a performance in seconds, columns of shape (notes,)."""

    start: Floats
    end: Floats
    pitch: NDArray[np.int64]
    loudness: Floats


def track_beats(score: Score, tempo: float | None = None) -> Beats:
    """The beats of a performance.

    Args:
        score: The performance. Its tempo map says when its ticks happen; its beats mean nothing.
        tempo: Beats per minute, if they are known.

    Returns:
        Rows of `BEAT`; none if there are too few notes, or if they last more than an hour.
    """
    nothing = np.empty(0, BEAT)
    notes = score.notes
    if len(np.unique(notes["start"])) < 8:
        return nothing
    played = _Played(
        score.seconds(notes["start"]),
        score.seconds(notes["end"]),
        np.where(score.is_drum(notes), 60, notes["pitch"]).astype(np.int64),  # a drum has no pitch
        notes["velocity"] / 80,
    )
    first, last = float(played.start.min()), float(played.start.max())
    if not 2 < last - first < LONGEST:
        return nothing
    strength = onset_strength(played.start - first + 0.5, _weights(played))
    period = 60.0 / tempo if tempo else find_period(strength)
    frames = find_beats(strength / max(strength.mean(), 1e-9), period * RATE)
    times = _refined(frames, strength) / RATE + first - 0.5
    ticks = score.ticks(times)
    kept = np.append(True, np.diff(ticks) > 0)
    beats = np.empty(int(kept.sum()), BEAT)
    beats["tick"] = ticks[kept]
    beats["is_downbeat"] = find_downbeats(_accents(played, times[kept]))
    return beats if len(beats) >= 4 else nothing


def _weights(played: _Played) -> Floats:
    """How much each note says about beats: loud, low and long ones more."""
    depth = np.clip((60 - played.pitch) / 24, 0, 1)
    return played.loudness * (1 + depth) * (0.5 + 0.5 * np.minimum(played.end - played.start, 1))


def onset_strength(times: Floats, weights: Floats) -> Floats:
    """How strongly notes begin at each frame, shape (frames,). A chord counts more than a note, but not as its sum."""
    place = times * RATE
    frame, part = np.floor(place).astype(np.int64), place % 1
    length = int(place.max()) + 2 * RATE
    onsets = np.bincount(frame, weights * (1 - part), length) + np.bincount(frame + 1, weights * part, length)
    reach = np.arange(-round(3 * SMEARED * RATE), round(3 * SMEARED * RATE) + 1)
    smooth: Floats = np.sqrt(np.convolve(onsets, np.exp(-0.5 * (reach / (SMEARED * RATE)) ** 2), "same"))
    return smooth


def find_period(strength: Floats) -> float:
    """The period of the beat in seconds."""
    size, lags = WINDOW * RATE, np.arange(round(SLOWEST * RATE), round(FASTEST * RATE))
    reach = 4 * lags[-1] + 2
    starts = range(0, max(len(strength) - size // 2, 1), HOP * RATE)
    mean = np.zeros(reach)
    for start in starts:
        window = strength[start : start + size]
        spectrum = np.fft.rfft(window - window.mean(), 2 * size)
        mean += np.fft.irfft(np.abs(spectrum) ** 2, 2 * size)[:reach] / np.maximum(size - np.arange(reach), size // 4)
    mean /= max(mean[0], 1e-9)
    mean[1:-1] = np.maximum(np.maximum(mean[1:-1], mean[:-2]), mean[2:])
    comb = np.mean([mean[np.rint(lags * half / 2).astype(np.int64)] for half in range(1, 9)], axis=0)
    octaves = np.log2(60 * RATE / lags / USUAL_TEMPO)
    return float(lags[np.argmax(CLARITY * comb - 0.5 * (octaves / OCTAVES) ** 2)]) / RATE


def find_beats(strength: Floats, period: float) -> NDArray[np.int64]:
    """The frames of the beats.

    Args:
        strength: How strongly notes begin at each frame; its mean is 1.
        period: The usual interval, in frames.
    """
    shortest, longest = int(period * (1 - DRIFT)), int(np.ceil(period * (1 + DRIFT)))
    intervals = np.arange(max(shortest, 2), longest + 1)
    columns = np.arange(len(intervals))
    change = STEADY * np.log(intervals[:, None] / intervals) ** 2  # from an interval (rows) to the next (columns)
    away = STEADY / 8 * np.log(intervals / period) ** 2
    # best[t + longest, i]: the best path that ends at frame t and goes on with interval i.
    best = np.zeros((len(strength) + longest, len(intervals)))
    before = np.zeros((len(strength), len(intervals)), np.int16)
    for start in range(0, len(strength), int(intervals[0])):
        frames = np.arange(start, min(start + int(intervals[0]), len(strength)))
        ending = strength[frames, None] + best[frames[:, None] + longest - intervals, columns] - away
        paths = ending[:, :, None] - change
        before[frames] = paths.argmax(1)
        best[frames + longest] = paths.max(1)
    final = best[longest:].max(1)[-longest - RATE :].argmax() + max(len(strength) - longest - RATE, 0)
    beats, frame = [int(final)], int(final)
    state = int(before[frame, best[frame + longest].argmax()])
    while frame >= intervals[state]:
        frame -= int(intervals[state])
        state = int(before[frame, state])
        beats.append(frame)
    return np.array(beats[::-1])


def _refined(frames: NDArray[np.int64], strength: Floats) -> Floats:
    """Beats between frames: where the onsets next to them are, if there are any."""
    reach = np.arange(-4, 5)
    near = strength[np.clip(frames[:, None] + reach, 0, len(strength) - 1)] ** 2
    total = near.sum(1)
    refined: Floats = frames + (near * reach).sum(1) / np.maximum(total, 1e-9)
    return refined


def _accents(played: _Played, beats: Floats) -> Floats:
    """How much each beat sounds like a downbeat, with mean 0 and deviation about 1, shape (beats,)."""
    count, step = len(beats), float(np.median(np.diff(beats)))
    near = np.searchsorted((beats[1:] + beats[:-1]) / 2, played.start)
    is_on = np.abs(played.start - beats[near]) <= min(0.08, 0.15 * step)
    length = played.loudness * np.minimum(played.end - played.start, 2)
    is_bass = played.pitch < BASS
    edges = np.append(beats, beats[-1] + step)
    sounding = np.zeros((count, 12))
    first = np.clip(np.searchsorted(edges, played.start + 0.05, side="right") - 1, 0, count - 1)
    for ahead in range(4):
        beat = np.minimum(first + ahead, count - 1)
        overlap = np.minimum(played.end, edges[beat + 1]) - np.maximum(played.start, edges[beat])
        overlap = np.where(first + ahead < count, np.clip(overlap, 0, None), 0)
        np.add.at(sounding, (beat, played.pitch % 12), overlap * (1 + is_bass))
    sums = np.concatenate([np.zeros((1, 12)), np.cumsum(sounding, 0)])
    here = np.arange(count)
    after, earlier = sums[np.minimum(here + 2, count)] - sums[here], sums[here] - sums[np.maximum(here - 2, 0)]
    same = (after * earlier).sum(1) / np.maximum(np.sqrt((after**2).sum(1) * (earlier**2).sum(1)), 1e-9)
    parts = (
        (1, np.sqrt(np.bincount(near[is_on], length[is_on], count))),
        (1, np.sqrt(np.bincount(near[is_on & is_bass], length[is_on & is_bass], count))),
        (2, 1 - same),
    )
    accents: Floats = sum(weight * (part - part.mean()) / max(part.std(), 1e-9) / 4 for weight, part in parts)
    return accents


def find_downbeats(accents: Floats) -> NDArray[np.bool_]:
    """Which beats are downbeats, shape (beats,). Bars have four beats, or three if that is much clearer."""
    four, three = (_bars(accents, size) for size in (4, 3))
    clearness = [float(accents[bars].sum()) / max(np.sqrt(bars.sum()), 1) for bars in (four, three)]
    return three if clearness[1] > clearness[0] + THREE else four


def _bars(accents: Floats, size: int) -> NDArray[np.bool_]:
    """The downbeats of bars of one size that have the strongest accents; a bar of another size costs `SLIP`."""
    best, before = np.zeros(size), np.zeros((len(accents), size), np.int64)
    places = np.arange(size)
    for beat, accent in enumerate(accents):
        on, slipped = np.roll(best, 1), best.max() - SLIP
        before[beat] = np.where(slipped > on, best.argmax(), (places - 1) % size)
        best = np.maximum(on, slipped)
        best[0] += accent
    place, is_downbeat = int(best.argmax()), np.zeros(len(accents), bool)
    for beat in range(len(accents) - 1, -1, -1):
        is_downbeat[beat] = place == 0
        place = int(before[beat, place])
    return is_downbeat
