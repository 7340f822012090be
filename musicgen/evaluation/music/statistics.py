"""Statistics of a set of pieces, and how they compare with those of real music.

Design note: all pieces are cut to one length before anything is counted. A long piece uses more pitches and repeats
more bars than a short one by the same composer. Without the cut, most differences would be differences of length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from musicgen.errors import UserError
from musicgen.evaluation import Progress
from musicgen.evaluation.midi_input import shown
from musicgen.evaluation.music.form import FORM, last_bar, measure_form
from musicgen.evaluation.music.harmony import ENDINGS, HARMONY, measure_ending, measure_harmony
from musicgen.evaluation.music.junction import JUNCTION, measure_junction
from musicgen.evaluation.music.metrics import (
    METRICS,
    bar_contents,
    bar_similarity,
    bars_of,
    cropped,
    measure,
    on_grid,
)
from musicgen.evaluation.music.overlap import chance, distance_overlap, dominance, halves, overlap
from musicgen.evaluation.music.songs import Gathered, Song
from musicgen.evaluation.resampling import Numbers
from musicgen.inputs import parse_json, read_regular
from musicgen.languages.grid import TokenError
from musicgen.languages.language import Language
from musicgen.midi.bars import BarLines
from musicgen.midi.markers import continuation_start
from musicgen.midi.score import Score

JUDGED = {**FORM, **HARMONY, **JUNCTION}
"""Metrics of what makes music a piece; name to meaning."""
MEASURED = {**METRICS, **JUDGED, **ENDINGS}
"""Everything that a piece has a number for; name to meaning."""
MOST_BARS = 2048
LARGEST_RECORD = 64 << 20


@dataclass(frozen=True)
class Measured:
    """A set of pieces, measured.

    Attributes:
        name: What it is called.
        songs: The pieces.
        bars: How many bars each has before the cut.
        values: By name of metric, `(pieces,)` each; nan where it is not defined.
        curves: Similarity of bars by distance, `(pieces, DISTANCES)`.
    """

    name: str
    songs: Sequence[Song]
    bars: Sequence[int]
    values: Mapping[str, Numbers]
    curves: Numbers

    @property
    def pieces(self) -> list[str]:
        """The names of the pieces."""
        return [song.name for song in self.songs]

    def defined(self, metric: str) -> Numbers:
        """The values of a metric that are defined."""
        values = self.values[metric]
        return values[~np.isnan(values)]


@dataclass(frozen=True)
class Comparison:
    """A metric of a generated set compared with the reference; nan where it is not defined.

    Attributes:
        overlap, distance_overlap: See `musicgen.evaluation.music.overlap`.
        halves, distance_halves: The same between two parts of the reference.
        delta, low, high: Cliff's δ and its 95 % interval.
        chance: The probability of a δ this far from 0 if the sets were alike.
    """

    overlap: float
    halves: float
    distance_overlap: float
    distance_halves: float
    delta: float
    low: float
    high: float
    chance: float


def measure_sets(
    gathered: Mapping[str, Gathered], language: Language | None, bars: int | None, progress: Progress
) -> tuple[list[Measured], int, list[str]]:
    """Measure sets of pieces, all cut to one length: `bars`, or the smallest median of all sets.

    With a language, pieces are quantised like its tokens. Endings are those of whole pieces. Songs without a prompt
    are divided where the prompts of the others end, in the median. Returns the sets, how many bars count, and a line
    for each piece that was left out.
    """
    left_out: list[str] = []
    grids = {name: _on_grids(name, item, language, left_out) for name, item in gathered.items()}
    length = bars or min(_typical_bars(pieces) for pieces in grids.values())
    prompts = [_prompt_bars(song) for item in gathered.values() for song in item.songs if song.prompt is not None]
    usual_prompt = int(np.median(prompts)) if prompts else 0
    work = [(name, song, score) for name, pieces in grids.items() for song, score in pieces]
    rows: dict[str, list[tuple[Song, int, dict[str, float], Numbers]]] = {name: [] for name in grids}
    for name, song, score in progress(work, len(work), "piece"):
        cut = cropped(score, length)
        values = {
            **measure(cut),
            "grammar error rate": grammar_errors(song.file),
            **measure_form(cut),
            "last bar": last_bar(score),
            **measure_harmony(cut),
            **measure_ending(score, length),
            **_at_prompt(song, usual_prompt, length),
        }
        rows[name].append((song, bars_of(score), values, bar_similarity(bar_contents(cut))))
    return [_measured(name, measured) for name, measured in rows.items()], length, left_out


def _prompt_bars(song: Song) -> int:
    """How many bars the prompt of a song has, from its first bar with a note on."""
    lines = BarLines(song.whole)
    return lines.bar(continuation_start(song.score)) - lines.bar(int(song.whole.notes["start"].min()))


def _at_prompt(song: Song, usual_prompt: int, length: int) -> dict[str, float]:
    """The metrics of a prompt's end; a song without a prompt is divided after `usual_prompt` bars, if there are any."""
    bars = usual_prompt if song.prompt is None else _prompt_bars(song)
    if not bars:
        return dict.fromkeys(JUNCTION, math.nan)
    return measure_junction(cropped(on_grid(song.whole), bars + length), bars)


def grammar_errors(file: Path | None) -> float:
    """The grammar error rate of a piece, from the record of `musicgen generate`; nan without one."""
    record = file.with_suffix(".json") if file is not None else None
    try:
        if record is None:
            return math.nan
        content = parse_json(read_regular(record, LARGEST_RECORD))
        errors = int(content["grammar_errors"])
        tokens = sum(map(int, content["tokens_of_bars"][int(content["prompt_bars"]) :]))  # without the prompt
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return math.nan
    return errors / tokens if 0 <= errors <= tokens and tokens else math.nan


def compare(generated: Measured, reference: Measured, metric: str, seed: int) -> Comparison:
    """Compare a metric of a generated set with the reference."""
    ours, theirs = generated.defined(metric), reference.defined(metric)
    plain, distances = halves(theirs, len(ours), seed)
    found = (*dominance(ours, theirs, seed), chance(ours, theirs, seed))
    return Comparison(overlap(ours, theirs), plain, distance_overlap(ours, theirs), distances, *found)


def _on_grids(
    name: str, gathered: Gathered, language: Language | None, left_out: list[str]
) -> list[tuple[Song, Score]]:
    """The songs of a set on the grid; a line for each that cannot be put there."""
    tried = [(song, _try_grid(song.score, language)) for song in gathered.songs]
    refused = [f"{shown(song.file or song.name)}: {answer}" for song, answer in tried if isinstance(answer, TokenError)]
    found = [(song, answer) for song, answer in tried if isinstance(answer, Score)]
    if not found:
        raise UserError(f"{name}: nothing in it can be compared; the first is {refused[0]}")
    left_out += refused
    return found


def _try_grid(score: Score, language: Language | None) -> Score | TokenError:
    try:
        return on_grid(score, language)
    except TokenError as error:
        return error


def _typical_bars(pieces: list[tuple[Song, Score]]) -> int:
    return min(int(np.median([bars_of(score) for _, score in pieces])), MOST_BARS)


def _measured(name: str, rows: list[tuple[Song, int, dict[str, float], Numbers]]) -> Measured:
    return Measured(
        name,
        [song for song, *_ in rows],
        [bars for _, bars, *_ in rows],
        {metric: np.array([values[metric] for _, _, values, _ in rows]) for metric in MEASURED},
        np.array([curve for *_, curve in rows]),
    )
