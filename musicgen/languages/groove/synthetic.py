"""Composes accompaniments by rules, in any number of styles: for tests, quick training runs and people without data.

A style is a feel (straight, swung or triplets), a drum pattern, a bass line, and parts for two or three other
instruments (chords, broken chords or long chords), each with a rhythm and a register. Styles of a family share feel,
drums and harmony, and differ in the rest. A piece is a style over a chord progression in some key and tempo, with a
drum fill at the end of every eight bars.

Design note: no style is written down. Each is drawn from its number, with strong beats more likely than weak ones. So
there are as many styles as needed, and style 7 is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from musicgen.midi.chord import NO_CHORD, TONES, Chord
from musicgen.midi.score import Score, TimeSignature, Track, make_notes, make_tempos

VARIANTS = 3
"""Styles in a family."""
_TICKS = 12
_BAR = 4 * _TICKS
_SCALE = 40
"""Scores have 480 ticks in a beat."""
_T = TypeVar("_T")
_Note = tuple[int, int, int, int, int]
"""Start and length in twelfths of a beat, pitch, velocity, track."""

_FEELS = {"straight": (0, 3, 6, 9), "swing": (0, 8), "triplet": (0, 4, 8)}
"""Where in a beat something may begin."""
_PROGRESSIONS = (
    "C Am F G, C G Am F, C F C G, C Em F G, F G Em Am, C F G C",
    "Am F C G, Am Dm E Am, Am G F E, Am C Dm E, Am Em F G, Dm Am E Am",
    "CM7 Am7 Dm7 G7, Dm7 G7 CM7 Am7, FM7 Em7 Dm7 G7, CM7 FM7 Dm7 G7, Am7 Dm7 G7 CM7",
    "C7 C7 F7 C7, C7 F7 C7 G7, C7 C7 G7 C7, G7 F7 C7 G7",
)
_KICK, _SNARE, _STICK, _TOM = 36, 38, 37, 45
_CYMBALS = (42, 42, 46, 51, 53, 54, 70)
_BACKBEATS = ((12, 36), (12, 36), (24,), (36,), (0, 12, 24, 36), ())
_BASSES = (32, 33, 33, 34, 35, 36, 38)
_PLAYERS = {"chords": (0, 4, 16, 24, 27, 28), "broken": (0, 6, 11, 24, 25, 46), "long": (48, 50, 52, 89, 91, 18)}
"""Manners of accompaniment and the programs that play each."""


class _Player(NamedTuple):
    """An instrument besides bass and drums: its manner, program, lowest pitch, and onsets and lengths in a bar."""

    manner: str
    program: int
    lowest: int
    strokes: tuple[tuple[int, int], ...]


class Style(NamedTuple):
    """A way to accompany; times are in twelfths of a beat.

    Attributes:
        feel: Where in a beat something may begin.
        tempo: The usual tempo in beats per minute.
        drums: Pitches of the drums, and when in a bar each is struck.
        bass_program: The instrument of the bass.
        bass: Onset and length of each note of the bass in a bar, and which tone of the chord it is; 3 is the octave.
        players: The other instruments.
        progressions: Four bars of chords each.
    """

    feel: tuple[int, ...]
    tempo: float
    drums: tuple[tuple[int, tuple[int, ...]], ...]
    bass_program: int
    bass: tuple[tuple[int, int, int], ...]
    players: tuple[_Player, ...]
    progressions: tuple[str, ...]


def family_of(style: int) -> str:
    """The name of a style's family."""
    return f"family_{style // VARIANTS:03d}"


def style_name(style: int) -> str:
    """The name of a style."""
    return f"{family_of(style)}/style_{style % VARIANTS}"


def compose_groove(seed: int, style: int, bars: int = 32) -> Score:
    """An accompaniment of exactly `bars` bars in 4/4. The seed draws key, tempo, chords and fills.

    The same arguments give the same music on every computer.
    """
    if bars < 1:
        raise ValueError(f"an accompaniment has at least 1 bar, not {bars}")
    manner, random = draw_style(style), np.random.default_rng((seed, style))
    key = int(12 * random.random())
    chords = [_chord(symbol, key) for symbol in _pick(random, manner.progressions).split()]
    tempo = round(manner.tempo * (0.92 + 0.16 * random.random()))
    rows: list[_Note] = []
    for bar in range(bars):
        root, tones = chords[bar % len(chords)]
        for start, length, pitch, velocity, track in _bar(manner, root, tones, bar, random):
            rows.append((bar * _BAR + start, length, pitch, velocity, track))
    start, length, pitch, velocity, track = np.array(rows).T
    names = [f"{player.manner.capitalize()} {number}" for number, player in enumerate(manner.players, 1)]
    others = [Track(name, player.program) for name, player in zip(names, manner.players, strict=True)]
    return Score(
        ticks_per_beat=_TICKS * _SCALE,
        notes=make_notes(start * _SCALE, (start + length) * _SCALE, pitch, velocity, track),
        tracks=(Track("Bass", manner.bass_program), Track("Drums", 0, is_drum=True), *others),
        tempos=make_tempos([(0, float(tempo))]),
        time_signatures=(TimeSignature(0, 4, 4),),
    )


@lru_cache(1000)
def draw_style(number: int) -> Style:
    """The style with a number."""
    family, own = np.random.default_rng((0, number // VARIANTS)), np.random.default_rng((1, number))
    feel = _FEELS[_pick(family, ("straight", "straight", "swing", "triplet"))]
    cymbal = _onsets(family, feel, _pick(family, (0.6, 0.9, 1.5)))
    drums = [
        (_KICK, _onsets(family, feel, 0.2)),
        (_pick(family, (_SNARE, _SNARE, _STICK)), _pick(family, _BACKBEATS)),
        (_pick(family, _CYMBALS), cymbal),
    ]
    tempo, progressions = 70 + 90 * family.random(), _pick(family, _PROGRESSIONS)
    if own.random() < 0.5:  # one more drum, for this style only
        drums.append((_pick(own, (39, 56, 62, 63, 69)), _onsets(own, feel, 0.2)))
    walks = own.random() < 0.3
    onsets = tuple(range(0, _BAR, _TICKS)) if walks else _onsets(own, feel, _pick(own, (0.1, 0.25, 0.45)))
    steps = [0, *(_pick(own, (1, 2, 2, 3) if walks else (0, 0, 2, 3)) for _ in onsets[1:])]
    bass = tuple((*stroke, step) for stroke, step in zip(_strokes(own, onsets), steps, strict=True))
    players = []
    for _ in range(_pick(own, (2, 3))):
        manner = _pick(own, tuple(_PLAYERS))
        density = {"chords": 0.3, "broken": 0.8, "long": 0.0}[manner]
        onsets = _onsets(own, feel, density * (0.7 + 0.6 * own.random()))
        strokes = ((0, _BAR),) if manner == "long" else _strokes(own, onsets)
        players.append(_Player(manner, _pick(own, _PLAYERS[manner]), _pick(own, (48, 52, 57, 60, 64)), strokes))
    return Style(feel, tempo, tuple(drums), _pick(own, _BASSES), bass, tuple(players), tuple(progressions.split(", ")))


def _onsets(random: np.random.Generator, feel: Sequence[int], density: float) -> tuple[int, ...]:
    """Onsets in a bar, always with the first. Strong beats are more likely than weak ones."""
    places = [beat * _TICKS + tick for beat in range(4) for tick in feel]
    weights = [4 if place % 24 == 0 else 2 if place % _TICKS == 0 else 1 for place in places]
    chosen = [random.random() < density * weight for weight in weights]
    return tuple(place for place, is_chosen in zip(places, chosen, strict=True) if is_chosen or place == 0)


def _strokes(random: np.random.Generator, onsets: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Onsets and lengths: all notes last until the next, or all are short."""
    short = random.random() < 0.4
    rooms = np.diff([*onsets, _BAR]).tolist()
    return tuple((onset, min(room, 3) if short else room) for onset, room in zip(onsets, rooms, strict=True))


def _bar(style: Style, root: int, tones: Sequence[int], bar: int, random: np.random.Generator) -> Iterator[_Note]:
    """The notes of a bar, in ticks since its start."""
    is_fill = bar % 8 == 7 and random.random() < 0.8
    for pitch, onsets in style.drums:
        for onset in onsets:
            if not (is_fill and onset >= 3 * _TICKS):
                yield onset, 1, pitch, _velocity(onset, random), 1
    if is_fill:
        for tick in style.feel:
            yield 3 * _TICKS + tick, 1, _SNARE if tick < 6 else _TOM, 96, 1
    low = 28 + (root - 28) % 12
    for onset, length, step in style.bass:
        yield onset, length, low + (*tones[:3], 12)[step], _velocity(onset, random), 0
    for track, player in enumerate(style.players, 2):
        voices = sorted(player.lowest + (root + tone - player.lowest) % 12 for tone in tones)
        for number, (onset, length) in enumerate(player.strokes):
            struck = voices[number % len(voices) :][:1] if player.manner == "broken" else voices
            for pitch in struck:
                yield onset, length, pitch, _velocity(onset, random) - 12, track


def _velocity(onset: int, random: np.random.Generator) -> int:
    """The velocity of a note: by metre, and a little by chance."""
    accent = 12 if onset % 24 == 0 else 6 if onset % _TICKS == 0 else 0
    return 76 + accent + int(8 * random.random())


def _chord(symbol: str, key: int) -> tuple[int, tuple[int, ...]]:
    """The pitch class of a chord's root in a key, and the intervals above it."""
    chord = Chord.from_chart(symbol) or NO_CHORD
    return (chord.root + key) % 12, TONES[chord.quality]


def _pick(random: np.random.Generator, options: Sequence[_T]) -> _T:
    """One of the options. Only `random` gives the same numbers in every version of numpy."""
    return options[int(random.random() * len(options))]
