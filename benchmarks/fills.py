"""Random fills: files, gaps and wishes of any kind. Every rule is kept, and nothing changes outside the gaps.

    python benchmarks/fills.py [count=1000] [seed=0] [model=DIR]

Without a model, half of the fills are by a tiny untrained model of each language with gaps. Its notes are random, so it
comes to places that a trained one seldom sees. The files are composed; some are played off the grid, and piano has any
metre. It prints one line, or stops at the first fill that is wrong, with its seed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

import musicgen
from musicgen.errors import UserError
from musicgen.languages.infill import Gap, Infill
from musicgen.languages.language import Language
from musicgen.languages.registry import LANGUAGES
from musicgen.midi.chord import Chord
from musicgen.midi.key import Key
from musicgen.midi.score import Notes, Score, TimeSignature
from musicgen.model import PerformerConfig, PerformerLM
from musicgen.sampling import MusicModel

METRES = ((4, 4), (4, 4), (3, 4), (6, 8), (5, 4), (7, 8), (12, 8))
WISHES: dict[str, tuple[Any, ...]] = {
    "key": (None, None, "C", "F#m", "Bb"),
    "pitches": (None, None, "36-84", "48-72"),
    "polyphony": (None, None, 2, 6),
}
PIANO_WISHES: dict[str, tuple[Any, ...]] = {"tempo": (None, None, "90-130", "72"), "chords": (None, None, "C Am F G")}
NO_ROOM = "notes held through the last bars leave no room for another"
"""The one reason to refuse such a case."""
COLUMNS = ["start", "pitch", "velocity", "track"]


class Case(NamedTuple):
    """A piece, its gaps, and what is asked of the new bars."""

    original: Score
    gaps: tuple[Gap, ...]
    wishes: dict[str, Any]


def untrained(language: Language) -> MusicModel:
    """A tiny model that knows nothing."""
    torch.manual_seed(0)
    size = {"num_layers": 1, "num_heads": 2, "d_model": 32, "d_ff": 32, "num_features": 16}
    config = PerformerConfig(len(language.vocabulary), **size, pe="rope", positions="time")  # type: ignore[arg-type]
    return MusicModel(PerformerLM(config).eval(), language, "untrained", "0" * 64)


def draw(language: Language, infill: Infill, seed: int) -> Case:
    """A random case."""
    random = np.random.default_rng(seed)

    def choose(values: tuple[Any, ...]) -> Any:
        return values[int(random.integers(len(values)))]

    original = language.compose(int(random.integers(1000)), seed, int(random.integers(4, 17)))[1]
    if random.random() < 0.5:
        original = played(original, random)
    wishes = WISHES
    metre = (4, 4)
    if infill.has_tempo:
        wishes, metre = {**WISHES, **PIANO_WISHES}, choose(METRES)
        original = original.replace(time_signatures=(TimeSignature(0, *metre),))
    place = np.floor(original.notes["start"] * language.grid / original.ticks_per_beat + 0.5)
    bars = int(place.max() / language.grid * metre[1] / 4 // metre[0]) + 1
    skipped = int(place.min() / language.grid * metre[1] / 4 // metre[0])
    gaps = tuple(gap._replace(first=gap.first + skipped) for gap in infill.draw(bars - skipped, random))
    asked = {name: choose(values) for name, values in wishes.items()}
    if asked.get("chords"):
        asked["key"] = choose((None, "C"))
    return Case(original, gaps, asked)


def played(score: Score, random: np.random.Generator) -> Score:
    """A piece with velocities of all kinds, and notes somewhat early or late."""
    notes = score.notes.copy()
    most = score.ticks_per_beat // 30
    shift = np.where(notes["start"] < most, 0, random.integers(-most, most + 1, len(notes)))
    notes["start"] += shift
    notes["end"] += shift
    notes["velocity"] = random.integers(1, 128, len(notes))
    return score.replace(notes=notes)


def inside(score: Score, case: Case, infill: Infill) -> NDArray[np.bool_]:
    """Whether each note of a piece begins in a gap of its instrument, shape (notes,)."""
    grid, tracks = infill.language.grid, infill.tracks(case.original)
    beat = np.floor(score.notes["start"] * grid / score.ticks_per_beat + 0.5) / grid
    found = np.zeros(len(beat), np.bool_)
    for gap in case.gaps:
        start, end = infill.beats(case.original, gap)
        parts = [part for part in range(len(tracks)) if gap.part in ("", *infill.parts[part : part + 1])]
        own = [track for part in parts for track in tracks[part]]
        is_known = score.notes["track"] < len(case.original.tracks)  # others were added for new instruments
        found |= (np.isin(score.notes["track"], own) | ~is_known) & (beat >= start - 1e-9) & (beat < end - 1e-9)
    return found


def fault(model: MusicModel, case: Case, seed: int) -> tuple[str, int]:
    """What is wrong with a fill ("" for nothing), and how many new notes it has."""
    infill = model.language.infill
    if infill is None:
        sys.exit(f"{model.name}: was trained without gaps")
    fills = ",".join(map(str, case.gaps))
    piece = model.fill(case.original, fills, seed=seed, **case.wishes)
    is_new, was_there = inside(piece.score, case, infill), inside(case.original, case, infill)
    before, after, new = case.original.notes[~was_there], piece.score.notes[~is_new], piece.score.notes[is_new]
    last = max(infill.beats(case.original, gap)[1] for gap in case.gaps) * case.original.ticks_per_beat
    late = before["start"] >= last
    drums = piece.score.is_drum(new)
    broken = {
        "the grammar does not accept it": bool(piece.errors),
        "something changed outside the gap": not np.array_equal(before[COLUMNS], after[COLUMNS])
        or not np.array_equal(before[late], after[late]),
        **unkept(piece.score, new[~drums], case, infill),
        "too many notes sound together": too_many(model.language.decode(piece.tokens), case, infill),
    }
    return next((words for words, is_so in broken.items() if is_so), ""), len(new)


def unkept(score: Score, new: Notes, case: Case, infill: Infill) -> dict[str, bool]:
    """Which wishes the pitches, tempos and chords of a fill break."""
    key = Key.parse(case.wishes["key"]) if case.wishes["key"] else None
    low, high = map(int, (case.wishes["pitches"] or "0-127").split("-"))
    spans = [infill.beats(case.original, gap) for gap in case.gaps]
    ticks = [tuple(round(beat * score.ticks_per_beat) for beat in span) for span in spans]
    broken = {
        "a pitch is out of key": key is not None and not set((new["pitch"] % 12).tolist()) <= key.pitch_classes,
        "a pitch is out of range": bool(((new["pitch"] < low) | (new["pitch"] > high)).any()),
    }
    if case.wishes.get("tempo"):
        slow, _, fast = case.wishes["tempo"].partition("-")
        held = [[bpm for tick, bpm in score.tempos.tolist() if tick <= start][-1:] for start, _ in ticks]
        later = [[bpm for tick, bpm in score.tempos.tolist() if start < tick < end] for start, end in ticks]
        tempos = [bpm for group in (*held, *later) for bpm in group]
        broken["a tempo is out of range"] = not all(float(slow) <= bpm <= float(fast or slow) for bpm in tempos)
    if case.wishes.get("chords"):
        asked = {Chord.from_chart(word) for word in case.wishes["chords"].split()}
        found = {mark.chord for mark in score.chords if any(start <= mark.tick < end for start, end in ticks)}
        broken["another chord"] = not found <= asked
    return broken


def too_many(score: Score, case: Case, infill: Infill) -> bool:
    """Whether more notes sound together than was asked for when a new note begins, in the music of the tokens."""
    if case.wishes["polyphony"] is None:
        return False
    skipped = infill.language.encode(case.original).quantisation
    offset = getattr(skipped, "skipped_bars", 0)
    first = infill.beats(case.original, Gap(0, offset))[1] if offset else 0.0
    for gap in case.gaps:
        start, end = (round((beat - first) * score.ticks_per_beat) for beat in infill.beats(case.original, gap))
        notes = score.notes
        if gap.part:
            notes = notes[notes["track"] == infill.parts.index(gap.part)]  # the others are given
        new = notes[(notes["start"] >= start) & (notes["start"] < end)]
        for tick in np.unique(new["start"]).tolist():
            sounding = int(((notes["start"] <= tick) & (notes["end"] > tick)).sum())
            if sounding > case.wishes["polyphony"]:
                return True
    return False


def main() -> None:
    """Check so many fills."""
    torch.set_num_threads(1)
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    count, first = int(given.get("count", 1000)), int(given.get("seed", 0))
    with_gaps = [language for language in LANGUAGES.values() if language.infill is not None]
    models = [musicgen.load(given["model"])] if "model" in given else [untrained(item) for item in with_gaps]
    began, notes, refused = time.monotonic(), 0, 0
    for seed in range(first, first + count):
        model = models[seed % len(models)]
        if model.language.infill is None:
            sys.exit(f"{given['model']}: was trained without gaps")
        case = draw(model.language, model.language.infill, seed)
        try:
            words, new = fault(model, case, seed)
        except UserError as error:
            if NO_ROOM not in str(error):
                raise
            refused += 1
            continue
        if words:
            gaps = ",".join(map(str, case.gaps))
            sys.exit(f"seed={seed} count={len(models)}: {model.language.name}, fill={gaps}, {case.wishes}: {words}")
        notes += new
    names = " and ".join(model.language.name for model in models)
    seconds = time.monotonic() - began
    print(f"{count - refused:,} fills ({names}), {notes:,} new notes, {seconds:.0f} s:", end=" ")
    print(f"every rule kept, nothing else changed; {refused} refused, because {NO_ROOM}")


if __name__ == "__main__":
    main()
