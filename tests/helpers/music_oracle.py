"""Metrics of pieces as slowly and plainly as they can be said, and pieces to try them on."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from musicgen.midi.score import Score, TimeSignature, Track, make_notes

TRACKS = (Track("Piano"), Track("Bass", 33), Track("Drums", 0, True))


def random_piece(seed: int, bars: int = 6, notes: int = 60, tracks: tuple[Track, ...] = TRACKS) -> Score:
    """A piece at 24 ticks per beat that begins in its first bar, with bars that return."""
    random = np.random.default_rng(seed)
    start = np.append(0, random.integers(0, bars * 96, notes - 1))
    start[1:] = np.where(random.random(notes - 1) < 0.7, start[1:] // 6 * 6, start[1:])
    end = np.minimum(start + random.integers(1, 72, notes), bars * 96)
    rows = np.stack(
        [start, np.maximum(end, start + 1), random.integers(40, 80, notes), random.integers(0, len(tracks), notes)]
    )
    source = rows[:, (rows[0] < 96) & (rows[1] <= 96)].copy()  # the first bar, again in another
    source[:2] += 96 * int(random.integers(1, bars))
    rows = np.concatenate([rows[:, (rows[0] // 96) != source[0].min() // 96], source], axis=1)
    return Score(
        24, make_notes(rows[0], rows[1], rows[2], 64, rows[3]), tracks, time_signatures=(TimeSignature(0, 4, 4),)
    )


def plain(score: Score) -> list[tuple[int, int, int, bool]]:
    """Start, end, pitch and whether it is a drum, of each note."""
    return [(int(n["start"]), int(n["end"]), int(n["pitch"]), score.tracks[n["track"]].is_drum) for n in score.notes]


def entropy(items: list[int]) -> float:
    return -sum(p * math.log2(p) for p in (items.count(item) / len(items) for item in set(items)))


def alike(one: set[int], other: set[int]) -> float:
    return sum((place in one) == (place in other) for place in range(16)) / 16


def slow_measure(score: Score) -> dict[str, float]:
    notes = plain(score)
    pitched = [note for note in notes if not note[3]]
    bars = max(note[0] for note in notes) // 96 + 1
    end = max(note[1] for note in notes)
    sounding = [{pitch for start, stop, pitch, _ in pitched if start <= tick < stop} for tick in range(end)]
    scales = [
        {(root + step) % 12 for step in steps}
        for root in range(12)
        for steps in ((0, 2, 4, 5, 7, 9, 11), (0, 2, 3, 5, 7, 8, 10))
    ]
    beats = end // 24 + 1
    drums = [note for note in notes if note[3]]
    pitches = [note[2] for note in pitched]
    contents = slow_contents(score)
    patterns = [
        {p % 16 for p in places if p // 16 == bar}
        for places in [[min((2 * n[0] * 4 + 24) // 48, bars * 16 - 1) for n in notes]]
        for bar in range(bars)
    ]
    return {
        "pitch range": max(pitches) - min(pitches),
        "pitches used": len(set(pitches)),
        "pitch classes used": len({pitch % 12 for pitch in pitches}),
        "pitch entropy": entropy(pitches),
        "pitch-class entropy": entropy([pitch % 12 for pitch in pitches]),
        "scale consistency": max(sum(pitch % 12 in scale for pitch in pitches) / len(pitches) for scale in scales),
        "polyphony": sum(map(len, sounding)) / sum(bool(keys) for keys in sounding),
        "polyphony rate": sum(len(keys) >= 3 for keys in sounding) / end,
        "empty-beat rate": sum(not any(n[0] // 24 <= beat <= n[1] // 24 for n in notes) for beat in range(beats))
        / beats,
        "drum pattern consistency": max(sum(n[0] % part == 0 for n in drums) / len(drums) for part in (6, 8))
        if drums
        else math.nan,
        "groove consistency": float(np.mean([alike(patterns[bar], patterns[bar + 1]) for bar in range(bars - 1)])),
        "groove similarity": float(np.mean([alike(one, other) for one, other in combinations(patterns, 2)])),
        "notes per bar": len(notes) / bars,
        "note duration": sum(stop - start for start, stop, *_ in pitched) / len(pitched) / 24,
        "bars repeated at once": slow_repeated(contents, 1),
        "bars repeated within 8": slow_repeated(contents, 8),
    }


def slow_contents(score: Score) -> list[set[tuple[int, int, int, bool]]]:
    notes = plain(score)
    bars = max(note[0] for note in notes) // 96 + 1
    return [{(n[0] % 96, n[2], n[1] - n[0], n[3]) for n in notes if n[0] // 96 == bar} for bar in range(bars)]


def slow_repeated(contents: list[set[tuple[int, int, int, bool]]], within: int) -> float:
    counted = [bar for bar in range(1, len(contents)) if contents[bar]]
    copies = [
        any(contents[bar] == contents[bar - back] for back in range(1, within + 1) if bar >= back) for bar in counted
    ]
    return sum(copies) / len(copies) if copies else math.nan


def slow_bar_similarity(score: Score) -> list[float]:
    contents, found = slow_contents(score), []
    for distance in range(1, 17):
        pairs = [(contents[bar], contents[bar + distance]) for bar in range(len(contents) - distance)]
        shares = [len(one & other) / len(one | other) for one, other in pairs if one | other]
        found.append(sum(shares) / len(shares) if shares else math.nan)
    return found


def slow_passages(piece: list[tuple[int, int]], corpus: list[list[tuple[int, int]]]) -> list[int]:
    """For each note (onset, pitch) of a piece, the notes of the longest passage from it on that is in the corpus."""
    longest = []
    for start in range(len(piece)):
        best = 1
        for song in corpus:
            for there in range(len(song)):
                length = 1
                while (
                    start + length < len(piece)
                    and there + length < len(song)
                    and piece[start + length][0] - piece[start + length - 1][0]
                    == song[there + length][0] - song[there + length - 1][0]
                    and piece[start + length][1] - piece[start + length - 1][1]
                    == song[there + length][1] - song[there + length - 1][1]
                ):
                    length += 1
                best = max(best, length)
        longest.append(best)
    return longest
