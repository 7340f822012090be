"""How well beats, downbeats and meaningless grids are found in real performances.

python benchmarks/beats.py POP909 [POP1K7] [GROOVES]          # about 5 minutes of one core for all songs
python benchmarks/beats.py POP909 --songs=100

POP909 has performances with annotated beats. Beats are found from the notes alone: the tempos of the files are taken
away. The constants of `musicgen.midi.beats` were chosen on the first 150 songs of a shuffled list; the table is about
the others. pretty_midi gets the same notes, and once more the files with their tempos.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from musicgen.midi.beats import track_beats
from musicgen.midi.folder import midi_files
from musicgen.midi.grid import to_grid
from musicgen.midi.performance import is_on_grid, steady_tempo
from musicgen.midi.pop909 import BEATS
from musicgen.midi.read import parse_file
from musicgen.midi.score import Score

TUNED_ON = 150
WITHIN = 0.07
"""Seconds by which a beat may be wrong."""
Times = NDArray[np.float64]


def f_measure(found: Times, truth: Times) -> float:
    """Agreement of two increasing lists of times: matched one to one within 70 ms."""
    i = j = hits = 0
    while i < len(found) and j < len(truth):
        if abs(found[i] - truth[j]) <= WITHIN:
            hits, i, j = hits + 1, i + 1, j + 1
        elif found[i] < truth[j]:
            i += 1
        else:
            j += 1
    return 2 * hits / max(len(found) + len(truth), 1)


def recorded(score: Score) -> Score:
    """The same performance as a recorder at 120 beats per minute writes it: its grid means nothing."""
    notes = score.notes.copy()
    notes["start"] = np.rint(960 * score.seconds(score.notes["start"]))
    notes["end"] = np.maximum(np.rint(960 * score.seconds(score.notes["end"])), notes["start"] + 1)
    return Score(480, notes, score.tracks)


def milliseconds_off(score: Score) -> float:
    """The mean distance of notes from the nearest sixteenth of a score on its grid."""
    sixteenth = score.ticks_per_beat / 4
    nearest = np.rint(np.rint(score.notes["start"] / sixteenth) * sixteenth).astype(np.int64)
    return float(1000 * np.abs(score.seconds(nearest) - score.seconds(score.notes["start"])).mean())


def ours(path: Path) -> tuple[Times, Times, float]:
    """Beats, downbeats and the distance of notes from the grid, by `track_beats`."""
    score = recorded(parse_file(path))
    beats = track_beats(score)
    times = score.seconds(beats["tick"])
    return times, times[beats["is_downbeat"]], milliseconds_off(to_grid(score.replace(beats=beats)))


def ours_with_tempo(path: Path) -> tuple[Times, Times, float]:
    """The same for the file as it is, whose tempo may be right."""
    score = parse_file(path)
    beats = track_beats(score, steady_tempo(score))
    times = score.seconds(beats["tick"])
    return times, times[beats["is_downbeat"]], milliseconds_off(to_grid(score.replace(beats=beats)))


def pretty(path: Path, knows_tempo: bool) -> tuple[Times, Times, float]:
    """Beats and downbeats by pretty_midi: with the tempos of the file, or with an estimated tempo."""
    import pretty_midi

    midi = pretty_midi.PrettyMIDI(str(path))
    start = midi.estimate_beat_start()
    if knows_tempo:
        return midi.get_beats(start), midi.get_downbeats(start), np.nan
    beats = np.arange(start, midi.get_end_time(), 60 / midi.estimate_tempo())
    return beats, beats[::4], np.nan


def score_songs(songs: list[Path], find: Callable[[Path], tuple[Times, Times, float]]) -> NDArray[np.float64]:
    """The means of F for beats, F for downbeats, whether the tempo is right, and the distance in milliseconds."""
    rows = []
    for path in songs:
        truth = np.loadtxt(path.parent / BEATS)
        beats, downbeats, distance = find(path)
        ratio = np.median(np.diff(beats)) / np.median(np.diff(truth[:, 0]))
        rows.append(
            [
                f_measure(beats, truth[:, 0]),
                f_measure(downbeats, truth[truth[:, 2] == 1, 0]),
                float(abs(ratio - 1) < 0.04),
                distance,
            ]
        )
    return np.mean(rows, axis=0)


def detection(folder: Path) -> dict[str, list[bool]]:
    """Whether files are believed to be on their grid: as they are, by what the annotations say, and recorded anew."""
    found = defaultdict[str, list[bool]](list)
    for path in midi_files(folder):
        annotation = path.parent / BEATS
        if annotation.is_file() and path.stem != path.parent.name:
            continue
        score = parse_file(path)
        kind = "on its grid"
        if annotation.is_file():
            truth = np.loadtxt(annotation)[:, 0]
            grid = score.seconds(np.arange(0, score.end, score.ticks_per_beat))
            near = np.abs(truth[:, None] - grid).min(1) < WITHIN
            kind = "on its grid" if near.mean() > 0.8 else "off its grid"
        found[kind].append(is_on_grid(score))
        if len(score.tempos) > 1 or annotation.is_file():  # a steady song may be on the grid of a recorder by chance
            found["recorded anew"].append(is_on_grid(recorded(score)))
    return found


def main(arguments: list[str]) -> None:
    """Print the tables."""
    limit = next((int(word.partition("=")[2]) for word in arguments if word.startswith("--songs=")), None)
    folders = [Path(word) for word in arguments if not word.startswith("--")]
    songs = sorted(path for path in folders[0].rglob("*.mid") if path.stem == path.parent.name)
    order = np.random.default_rng(0).permutation(len(songs))
    tuned, others = ([songs[number] for number in part][:limit] for part in (order[:TUNED_ON], order[TUNED_ON:]))
    some = others[:100]
    print("| beats of | by | songs | F beats | F downbeats | tempo right | ms to a sixteenth |")
    print("|---|---|---|---|---|---|---|")
    rows: list[tuple[str, str, list[Path], Any]] = [
        ("other songs", "ours, notes alone", others, ours),
        ("songs of tuning", "ours, notes alone", tuned, ours),
        ("other songs", "ours, tempos of the file", some, ours_with_tempo),
        ("other songs", "pretty_midi, notes alone", some, lambda path: pretty(path, False)),
        ("other songs", "pretty_midi, tempos of the file", some, lambda path: pretty(path, True)),
    ]
    for what, how, chosen, find in rows:
        beats, downbeats, tempo, distance = score_songs(chosen, find)
        away = "" if np.isnan(distance) else f"{distance:.1f}"
        print(
            f"| {what} | {how} | {len(chosen)} | {beats:.3f} | {downbeats:.3f} | {tempo:.0%} | {away} |",
            flush=True,
        )
    print("\n| folder | files | believed to be on the grid |\n|---|---|---|")
    for folder in folders:
        for kind, believed in detection(folder).items():
            print(f"| {folder.name}, {kind} | {len(believed)} | {np.mean(believed):.1%} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
