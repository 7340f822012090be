"""What becomes of real files as prompts: who is refused and why, and how far notes are shifted.

python tools/gather_midi.py real_midi
python benchmarks/real_files.py real_midi                 # 4-bar prompts, both tokens of piano; some seconds each

Each folder in FOLDER is a line of the table. A note is *kept* if tokens have it at the nearest step of their grid;
notes of one pitch that fall together count as one that is kept. Shifts are from the beats that the file has, or for
live playing from the beats that were found in it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from musicgen.errors import UserError
from musicgen.languages.language import PLAINLY
from musicgen.languages.metre import in_metres
from musicgen.languages.prompt import load_prompt
from musicgen.languages.registry import LANGUAGES
from musicgen.languages.remi.language import Remi
from musicgen.languages.remi.quantise import Bars
from musicgen.midi.folder import midi_files
from musicgen.midi.performance import is_on_grid
from musicgen.midi.read import MidiError, read_midi
from musicgen.midi.score import Notes, Score

BARS = 4
Beats = NDArray[np.float64]


class Fate(NamedTuple):
    """What became of the notes of a prompt."""

    notes: int
    kept: int
    shift: float


def follow(language: Remi, score: Score) -> Fate:
    """How many pitched notes of the first bars there are, how many tokens have, and the sum of shifts in milliseconds.

    Raises:
        UserError: It cannot be a prompt.
    """
    prompt = language.read_prompt(score, BARS)
    source, _, _ = load_prompt(score, PLAINLY)
    decoded = language.decode(prompt.tokens)
    notes = source.notes[~source.is_drum(source.notes)]
    notes = notes[(notes["pitch"] >= 21) & (notes["pitch"] <= 108)]
    source = in_metres(source.replace(notes=notes), language.tokens.metres).score
    bars = Bars.of(source, language.tokens)
    begun = int(bars.starts[bars.bar(bars.place(source.notes["start"]).min())])
    first = begun / language.tokens.units + source.time_signatures[0].tick / source.ticks_per_beat
    there = decoded.notes["start"] / decoded.ticks_per_beat
    end = float(language.clock(prompt.tokens)[-1])
    return _matched(source, source.notes, decoded.notes["pitch"], there, first, end, language.grid)


def _matched(
    source: Score, notes: Notes, pitches: NDArray[np.int16], there: Beats, first: float, end: float, grid: int
) -> Fate:
    """What became of notes if the prompt begins at a beat of the piece and ends so many beats later."""
    half = 0.5 / grid + 1e-6
    here = notes["start"] / source.ticks_per_beat
    is_taken = here - first < end - half
    notes, here = notes[is_taken], here[is_taken]
    kept, shift = 0, 0.0
    for pitch in np.unique(notes["pitch"]):
        places, own = there[pitches == pitch] + first, notes["pitch"] == pitch
        if not len(places):
            continue
        near = places[np.abs(here[own][:, None] - places).argmin(1)]
        is_kept = np.abs(near - here[own]) <= half
        ticks = np.rint(near * source.ticks_per_beat).astype(np.int64)
        away = np.abs(source.seconds(ticks) - source.seconds(notes["start"][own]))
        kept += int(is_kept.sum())
        shift += 1000 * float(away[is_kept].sum())
    return Fate(len(notes), kept, shift)


def read(path: Path) -> Score | UserError:
    """A file, or why it cannot be read."""
    try:
        return read_midi(path)
    except MidiError as error:
        return error


def fate_of(language: Remi, score: Score | UserError) -> Fate | UserError:
    """What became of a file as a prompt, or why it was refused."""
    if isinstance(score, UserError):
        return score
    try:
        return follow(language, score)
    except UserError as error:
        return error


def main(arguments: list[str]) -> None:
    """Print the table, and why files are refused."""
    if len(arguments) != 1:
        sys.exit(__doc__)
    folder = Path(arguments[0])
    kinds = sorted(path for path in folder.iterdir() if path.is_dir()) or [folder]
    scores = {kind: {path.name: read(path) for path in midi_files(kind)} for kind in kinds}
    print("| tokens | folder | files | beat tracked | refused | notes kept | mean shift (ms) |")
    print("|---|---|---|---|---|---|---|")
    reasons = list[str]()
    for language in [item for item in LANGUAGES.values() if isinstance(item, Remi)]:
        for kind, files in scores.items():
            fates = {name: fate_of(language, score) for name, score in files.items()}
            refused = {name: fate for name, fate in fates.items() if isinstance(fate, UserError)}
            reasons += [
                f"{language.name}, {kind.name}: {name}: {str(error).rpartition(': ')[2]}"
                for name, error in sorted(refused.items())
            ]
            tracked = sum(isinstance(score, Score) and not is_on_grid(score) for score in files.values())
            taken = np.array([fate for fate in fates.values() if isinstance(fate, Fate)]).reshape(-1, 3).sum(0)
            share, mean = taken[1] / max(taken[0], 1), taken[2] / max(taken[1], 1)
            print(
                f"| {language.name} | {kind.name} | {len(files)} | {tracked} | {len(refused)} "
                f"({len(refused) / max(len(files), 1):.1%}) | {share:.2%} | {mean:.1f} |",
                flush=True,
            )
    print("", *reasons, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
