"""Composes pop-piano pieces by rules: music for tests, quick training runs and people without data.

A piece has a key, a tempo and a form. A theme (eight bars of harmony, melody and accompaniment) is composed once. Every
section of the form plays a theme, and varies it a little when it returns. So there is something to learn nearby (chord
tones, figures, rhythm) and far away (motifs, phrases, sections).

Design note: time is counted in sixteenths, and melodies in steps of the scale of the current chord. Ticks and pitches
are computed last. So a piece is on the grid of the tokens, quantising changes nothing, and a motif has the same
numbers over every chord. Every theme has its own random numbers, so the themes of a seed do not depend on the number of
bars.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from musicgen.midi.chord import TONES, Chord
from musicgen.midi.score import ChordMark, Notes, Score, TimeSignature, make_notes, make_tempos

_TICKS_PER_BEAT = 480
_SIXTEENTH = _TICKS_PER_BEAT // 4
_BAR = 16
_T = TypeVar("_T")
_Note = tuple[int, int, int, int]
"""Start and length in sixteenths, pitch, velocity."""

_SCALES = {"major": (0, 2, 4, 5, 7, 9, 11), "minor": (0, 2, 3, 5, 7, 8, 10)}
_STEPS = {0: 0, 2: 1, 3: 2, 4: 2, 5: 3, 6: 4, 7: 4, 8: 4, 9: 6, 10: 6, 11: 6}
"""The number of scale steps in each interval."""
_PROGRESSIONS = {
    "major": (
        "I V vi IV, I vi IV V, I IV vi V, I-V vi-iii IV-I IV-V, I iii IV V, IM7 IV IM7 Vsus4-V, ii7 V7 IM7 vi7, "
        "I bVII IV I, Isus2-I V vi7 IVM7, I IVsus2 I V, I #io7 ii7 V7, vi V IV V7",
        "vi IV I V, IV V iii vi, I V vi IV, IV I V vi, IV V vi-V I, I III7 vi IV, I-V vi IV iv, IVM7 V7 iii7 vi7",
        "vi iii IV I, ii7 iii7 IV V, IV iv iii7 vi7, vi III7 vi IV, ii7 V7 iii7 vi7, vi7 ii7 IVM7 Vsus4-V7",
    ),
    "minor": (
        "i VI III VII, i iv VI V, i VII VI V7, i v VI iv, i7 iv7 VII IIIM7, i-v VI-III iv-i iv-V, i iv i V7, "
        "isus2-i VIM7 III VIIsus4-VII, i7 VII VIM7 v7, i III VII iv",
        "VI VII i III, III VII i VI, i VI III VII, iv VII III VI, VI III VII i, i VI iv V, VIM7 VII i7 III",
        "VI III VII i, iv i iv V, iv7 VII7 IIIM7 VIM7, ii/o7 V7 i VI, VI VII v i",
    ),
}
"""Four bars each for verses, choruses and bridges, in numerals of the scale. A bar may have two chords."""
_CADENCES = {
    "major": "IV-V I, ii7-V7 I, Vsus4-V I, IV I, iv I, V7 vi, V+ I",
    "minor": "iv-V i, ii/o7-V7 i, Vsus4-V7 i, VI-VII i, iv i, iio-V i, #viio7 i",
}
_FIGURES = (
    ("r....... c.......", "r....... c.c.c.c.", "R.....r. c.c.c.c."),
    ("r....... ..f.t...", "r....... -fotutof", "R....... -fotutof"),
    ("r....... ..o.t.o.", "r...f... -oto-oto", "r............... -fotutof-fotutof"),
    ("r....... 1.3.2.3.", "r....... 13231323", "r...r... 13231323"),
    ("r...f... -.c.-.c.", "R...f... -.c.-.c.", "R...R... -c-c-c-c"),
    ("r....... c...c...", "R....... c.c.c.c.", "R.....r. cccccccc"),
    ("r..r..r. c.......", "r..r..r. c..c..c.", "R..r..r. c..c.cc."),
    ("r.....a. -.c.....", "r...f.a. -.c.c.c.", "R...f.a. -c.cc.c."),
)
"""Accompaniments, each at three densities: the voices of a bar, in letters of `_voicing`."""
_FINALS = ("R....... c.......", "r............... -f.............. --o............. ---t............")
_CELLS = (
    ("x.......", "x...x...", "x.....x.", "----x...", "x..x....", "x..x..x."),
    ("x...x...", "x.x.x...", "x...x.x.", "--x.x.x.", "x..x..x.", "x.x.x.x.", "..x.x.x."),
    ("x.x.x.x.", "x.xxx.x.", "x..x..x.", "--x.x.xx", "xxx.x...", "..xxx.x.", "x..xx.x.", "x...x.x."),
)
"""Rhythms of half bars of melody: calm, flowing and lively. A dot at the start holds the note before."""
_ENDINGS = ("x...............", "x...x...........", "x.x.x...........", "x...........--x.", "x.......----x.x.")
_PHRASES = ("aba", "aab", "aaa", "abb")
"""The motif of each bar of a phrase, except the last bar."""
_ARCS = ((0, 1, 2, 0), (0, 0, 2, 1), (2, 1, 0, -1), (0, 2, 3, 1), (0, -1, 1, 0), (1, 2, 0, -1))
"""Where each bar of a phrase begins, in steps above the theme's register."""
_FORMS = ("VCVC", "VVCV", "VCXC", "VPCVPC", "VVCXVC", "CVCX", "VCVXCC")
"""V: verse, C: chorus, P: a short bridge to the chorus, X: another bridge."""
_DYNAMICS = {"intro": (50, 8), "verse": (58, 2), "chorus": (70, 0), "bridge": (60, 8), "coda": (60, -14)}
"""The velocity at which a section begins, and how much it grows."""


class _Harmony(NamedTuple):
    """A chord in a key: its symbol with the root above the tonic, the scale around it, its degrees in that scale."""

    chord: Chord
    scale: tuple[int, ...]
    degrees: frozenset[int]


class _Tone(NamedTuple):
    """A note of a melody: start and length in sixteenths, and scale steps above the tonic."""

    start: int
    length: int
    step: int


class _Theme(NamedTuple):
    """What sections play: a harmony for each half bar, a melody with two endings, a figure at three densities."""

    harmonies: list[_Harmony]
    melodies: list[list[_Tone]]
    figures: tuple[str, ...]


class _Section(NamedTuple):
    """A theme's place in the form: from bar `start` on, heard `visit` times before, `lift` semitones higher."""

    role: str
    theme: int
    start: int
    bars: int
    visit: int
    lift: int


def compose(seed: int, bars: int = 32) -> Score:
    """A piece for piano of exactly `bars` bars in 4/4. The same arguments give the same piece on every computer."""
    if bars < 1:
        raise ValueError(f"a piece has at least 1 bar, not {bars}")
    random = np.random.default_rng((seed, 0))
    mode = _pick(random, ("major", "major", "minor"))
    mood = _pick(random, (0, 1, 1, 2))
    tonic = _pick(random, range(54, 66))
    bpm = _pick(random, (range(62, 87, 3), range(80, 114, 3), range(101, 141, 3))[mood])
    sections = _plan(random, bars)
    themes: dict[int, _Theme] = {}
    chords: dict[int, Chord] = {}
    notes: list[_Note] = []
    for number, section in enumerate(sections):
        if section.theme not in themes:
            own = np.random.default_rng((seed, 1, section.theme))
            themes[section.theme] = _compose_theme(own, mode, mood, section.theme, (70 - tonic) * 7 // 12)
        own = np.random.default_rng((seed, 2, number))
        theme, key = themes[section.theme], tonic + section.lift
        if section.role == "coda":
            theme = _coda(own, mode, theme, section.bars)
        for half, harmony in enumerate(theme.harmonies[: 2 * section.bars]):
            chords[section.start * _BAR + half * 8] = harmony.chord.transposed(key)
        notes += _right_hand(own, theme, section, key)
        notes += _left_hand(own, theme, section, key)
    return Score(
        _TICKS_PER_BEAT,
        _in_ticks(notes),
        tempos=make_tempos(_changes(_tempos(random, sections, bpm))),
        time_signatures=(TimeSignature(0, 4, 4),),
        chords=tuple(ChordMark(tick, chord) for tick, chord in _changes(chords)),
    )


def _plan(random: np.random.Generator, bars: int) -> list[_Section]:
    """Sections that fill `bars` bars: sometimes an intro, the form as often as it fits, and a coda for the rest."""
    form = _pick(random, _FORMS)
    start = intro = _pick(random, (0, 2, 4, 4)) if bars >= 24 else 0
    coda = _pick(random, (2, 4, 4)) if bars >= 16 else 1
    sections = [_Section("intro", _pick(random, (0, 1)), 0, intro, 0, 0)] if intro else []
    visits: Counter[int] = Counter()
    lift = 0
    for number, letter in enumerate(itertools.cycle(form)):
        left = bars - coda - start
        if left == 0 or (left < 4 and start > intro):
            break
        # Every round of the form has its own bridge, so that a long piece keeps bringing something new.
        theme = "VCP".index(letter) if letter != "X" else 3 + number // len(form)
        length = min(left, 4 if letter == "P" else 8)
        if number and number % len(form) == 0:
            lift = _pick(random, (0, 0, 0, -2, 2, 3))
        if bars >= 48 and letter == "C" and left - length < 4:
            lift += _pick(random, (0, 0, 1, 2))
        role = {"V": "verse", "C": "chorus"}.get(letter, "bridge")
        sections.append(_Section(role, theme, start, length, visits[theme], lift))
        visits[theme] += 1
        start += length
    # The coda uses the theme of the beginning.
    return [*sections, _Section("coda", "VC".index(form[0]), start, bars - start, 0, lift)]


def _tempos(random: np.random.Generator, sections: list[_Section], bpm: int) -> dict[int, float]:
    """Tempo changes by sixteenth: each section has its tempo, and the end slows down."""
    faster = {"chorus": _pick(random, (0, 0, 3, 6)), "bridge": _pick(random, (0, 0, -3, -6))}
    tempos = {section.start * _BAR: float(bpm + faster.get(section.role, 0)) for section in sections}
    end = (sections[-1].start + sections[-1].bars) * _BAR
    slower = ((24, 3), (20, 6), (16, 9), (8, 15)) if end >= 4 * _BAR else ()
    return tempos | {end - before: float(bpm - less) for before, less in slower}


def _compose_theme(random: np.random.Generator, mode: str, mood: int, number: int, register: int) -> _Theme:
    """Two phrases of four bars that begin alike and end differently."""
    kind = min(number, 2)
    question = _pick(random, _PROGRESSIONS[mode][kind].split(", ")).split()
    answer = question[:2] + _pick(random, _CADENCES[mode].split(", ")).split()
    harmonies = _harmonies(mode, question + _pick(random, (question, answer, answer)))
    cells = _CELLS[_pick(random, (mood, mood, 1))]
    rhythms = {name: _pick(random, cells) + _pick(random, cells) for name in "ab"}
    rhythms |= {name: _pick(random, _ENDINGS) for name in "cde"}
    contours = {name: _contour(random)[: rhythm.count("x")] for name, rhythm in rhythms.items()}
    phrase, arc = _pick(random, _PHRASES), _pick(random, _ARCS)
    melodies = []
    for names in (f"{phrase}c{phrase}d", f"{phrase}c{phrase}e"):
        bars = zip(names, arc * 2, strict=True)
        steps = [register + kind + rise + step for name, rise in bars for step in contours[name]]
        melodies.append(_sing("".join(rhythms[name] for name in names), steps, harmonies))
    return _Theme(harmonies, melodies, _pick(random, _FIGURES))


def _contour(random: np.random.Generator) -> list[int]:
    """Ten steps of a walk around 0, mostly single steps; after a leap it turns back."""
    contour, direction = [0], _pick(random, (-1, 1))
    while len(contour) < 10:
        size = _pick(random, (0, 1, 1, 1, 1, 1, 2, 2, 3))
        if abs(contour[-1] + direction * size) > 4 or random.random() < 0.25:
            direction = -direction
        contour.append(contour[-1] + direction * size)
        direction = -direction if size > 2 else direction
    return contour


def _sing(rhythm: str, steps: list[int], harmonies: list[_Harmony]) -> list[_Tone]:
    """A melody of these steps, fitted to the harmony. The last long note is the tonic if the chord has it."""
    strokes = _strokes(rhythm)
    degrees = [_degrees(harmonies, start, length) for start, length, _ in strokes]
    for index, (start, length, _) in enumerate(strokes):
        if start % 8 == 0 or length > 4:
            steps[index] = _snapped(steps[index], degrees[index])
    for index, step in enumerate(steps):
        # A note outside the chord must be approached and left by step.
        if [abs(step - other) for other in steps[max(index - 1, 0) : index + 2]] != [1, 0, 1]:
            steps[index] = _snapped(step, degrees[index])
    last = max(range(len(steps)), key=lambda index: (strokes[index][0] >= 7 * _BAR, strokes[index][1]))
    if 0 in degrees[last]:
        steps[last] = _snapped(steps[last], (0,))
    return [_Tone(start, length, step) for (start, length, _), step in zip(strokes, steps, strict=True)]


def _degrees(harmonies: list[_Harmony], start: int, length: int) -> set[int]:
    """Degrees that fit every chord under a note, or else the last chord."""
    under = harmonies[start // 8 : (start + length - 1) // 8 + 1]
    shared = set.intersection(*({(degree, each.scale[degree]) for degree in each.degrees} for each in under))
    return {degree for degree, _ in shared} or set(under[-1].degrees)


def _snapped(step: int, degrees: Collection[int]) -> int:
    """The nearest step whose degree is one of these."""
    return next(step + move for move in (0, -1, 1, -2, 2, -3, 3) if (step + move) % 7 in degrees)


def _coda(random: np.random.Generator, mode: str, theme: _Theme, bars: int) -> _Theme:
    """The last `bars` bars of: the theme's beginning, a bar of cadence, a bar of tonic."""
    cadence = _pick(random, _CADENCES[mode].split(", ")[:5]).split()[0]
    tonic = _pick(random, ("i", "i", "i", "I")) if mode == "minor" else "I"
    harmonies = theme.harmonies[: max(2 * bars - 4, 0)] + _harmonies(mode, [cadence, tonic])
    first = (bars - 2) * _BAR
    first_melody = theme.melodies[0]
    melody = [tone._replace(length=min(tone.length, first - tone.start)) for tone in first_melody if tone.start < first]
    home = _snapped((melody or first_melody)[-1].step, (0,))
    melody += (_Tone(first + 8 * half, 8, _snapped(home + 2 - half, harmonies[half - 4].degrees)) for half in (0, 1))
    melody.append(_Tone(first + _BAR, _BAR, home))
    return _Theme(harmonies[-2 * bars :], [[tone for tone in melody if tone.start >= 0]], theme.figures)


def _right_hand(random: np.random.Generator, theme: _Theme, section: _Section, key: int) -> Iterator[_Note]:
    """The melody of a section, and the notes that double it."""
    melody, end, returns = theme.melodies[0], section.bars * _BAR, section.visit > 0
    if section.role == "intro":
        end = min(end, _pick(random, (0, 0, 2 * _BAR, 4 * _BAR)))
    elif returns:
        melody = _pick(random, theme.melodies)
        melody = _pick(random, (melody, _ornamented(random, melody)))
    doublings = ("", "third", "octave", "full")
    doubling = _pick(random, doublings[returns:] if section.role == "chorus" else doublings[: 1 + returns])
    for start, length, step in melody:
        if start < end:
            length = min(length, end - start)
            harmony = theme.harmonies[(start + length - 1) // 8]
            for each in _doubled(doubling, step, harmony):
                pitch = key + each // 7 * 12 + harmony.scale[each % 7]
                yield section.start * _BAR + start, length, pitch, _velocity(section, start) - 8 * (each != step)


def _doubled(doubling: str, step: int, harmony: _Harmony) -> list[int]:
    """The steps that sound for a step of the melody; the first is the step itself."""
    steps = [step, step + 7] if doubling in ("octave", "full") else [step]
    if doubling in ("third", "full"):
        below = [gap for gap in (2, 3, 4) if (step - gap) % 7 in harmony.degrees or step % 7 not in harmony.degrees]
        steps.append(steps[-1] - below[0])
    return steps


def _ornamented(random: np.random.Generator, melody: list[_Tone]) -> list[_Tone]:
    """The melody with some ornaments: filled thirds, neighbours between repeated notes, mordents on long notes."""
    tones: list[_Tone] = []
    for (start, length, step), following in zip(melody, [*melody[1:], None], strict=True):
        gap = following.step - step if following and following.start == start + length else None
        half = length // 2
        if length in (2, 4, 8) and gap in (-2, 0, 2) and (start + half) % 8 and random.random() < 0.6:
            between = step + (gap // 2 or 1)
            tones += _Tone(start, half, step), _Tone(start + half, half, between)
        elif length >= 6 and random.random() < 0.3:
            tones += _Tone(start, 1, step), _Tone(start + 1, 1, step + 1), _Tone(start + 2, length - 2, step)
        else:
            tones.append(_Tone(start, length, step))
    return tones


def _left_hand(random: np.random.Generator, theme: _Theme, section: _Section, key: int) -> Iterator[_Note]:
    """The theme's figure, denser when the theme returns. A bar of two chords has the figure's first half twice."""
    density = (section.role in ("chorus", "bridge")) + (section.visit > 0 and _pick(random, (True, False, False)))
    figure, halves = theme.figures[density], theme.harmonies[: 2 * section.bars]
    for half, harmony in enumerate(halves):
        if half % 2 and harmony == halves[half - 1]:
            continue
        if section.role == "coda" and half == len(halves) - 2:
            figure = _pick(random, _FINALS)
        room = 8 if half % 2 or harmony != halves[half + 1] else _BAR
        voicing = _voicing(harmony, halves[(half + room // 8) % len(halves)], key)
        for start, length, letter in itertools.chain.from_iterable(map(_strokes, figure.split())):
            if start < room:
                velocity = _velocity(section, half * 8 + start) - 12
                for pitch in voicing[letter]:
                    yield section.start * _BAR + half * 8 + start, min(length, room - start), pitch, velocity


def _voicing(harmony: _Harmony, following: _Harmony, key: int) -> dict[str, list[int]]:
    """The pitches for each letter of a figure: bass, octave, fifth, tenth, top, approach, close chord."""
    _, third, fifth, *_ = intervals = TONES[harmony.chord.quality]
    bass, goal = (31 + (key + each.chord.root - 31) % 12 for each in (harmony, following))
    # All chords are in the same octave, so common tones stay and the others move little.
    close = sorted(50 + (bass + interval - 50) % 12 for interval in intervals[-3:])
    # A walking bass reaches the next root by a step of the scale.
    steps = (goal + (size if goal < bass else -size) for size in (1, 2, 3))
    approach = next(pitch for pitch in steps if (pitch - key) % 12 in harmony.scale)
    return {
        "r": [bass], "R": [bass, bass + 12], "f": [bass + fifth], "o": [bass + 12], "t": [bass + 12 + third],
        "u": [bass + 12 + intervals[-1]], "a": [approach], "c": close, "1": close[:1], "2": close[1:2], "3": close[2:],
    }  # fmt: skip


def _velocity(section: _Section, start: int) -> int:
    """The velocity of a note, by section, metre and place in the phrase."""
    begin, gain = _DYNAMICS[section.role]
    accent = 4 if start % _BAR == 0 else 2 if start % 8 == 0 else 0 if start % 4 == 0 else -2
    arc = start % 64 * (64 - start % 64) // 160
    return begin + gain * start // (section.bars * _BAR) + 2 * min(section.visit, 2) + accent + arc


def _harmonies(mode: str, bars: list[str]) -> list[_Harmony]:
    """Two harmonies for each bar."""
    return [_harmony(mode, symbol) for bar in bars for symbol in (bar.split("-") * 2)[:2]]


@lru_cache(1000)
def _harmony(mode: str, symbol: str) -> _Harmony:
    """Read a numeral of a scale, as in `IV`, `bVII`, `ii7` and `Vsus4`."""
    accidental, numeral, kind = re.findall("([b#]?)([iIvV]+)(.*)", symbol)[0]
    degree = ("i", "ii", "iii", "iv", "v", "vi", "vii").index(numeral.lower())
    quality = "m" + kind if numeral.islower() and kind in ("", "7") else kind or "M"
    scale = list(_SCALES[mode])
    root = scale[degree] + {"b": -1, "": 0, "#": 1}[accidental]
    places = {degree + _STEPS[interval]: root + interval for interval in TONES[quality]}
    for place, semitones in places.items():
        scale[place % 7] = semitones - place // 7 * 12
    return _Harmony(Chord(root, quality), tuple(scale), frozenset(place % 7 for place in places))


@lru_cache(1000)
def _strokes(pattern: str) -> tuple[tuple[int, int, str], ...]:
    """Start, length and letter of each note of a pattern: a dot holds, a dash is silent. A bar has 8 or 16 signs."""
    unit = max(_BAR // len(pattern), 1)
    strokes = re.finditer(r"(\w)\.*", pattern)
    return tuple((unit * stroke.start(), min(unit * len(stroke[0]), _BAR), stroke[1]) for stroke in strokes)


def _in_ticks(notes: list[_Note]) -> Notes:
    """Notes in ticks. A key is struck once at a time, and released before it is struck again."""
    struck = sorted({(pitch, start): (length, velocity) for start, length, pitch, velocity in reversed(notes)}.items())
    pitch, start, length, velocity = np.array([place + rest for place, rest in struck]).T
    again = np.where(np.diff(pitch, append=0), start.max() + 2 * _BAR, np.roll(start, -1))
    end = np.minimum((start + length) * _SIXTEENTH, again * _SIXTEENTH - _SIXTEENTH // 2)
    return make_notes(start * _SIXTEENTH, end, pitch, np.clip(velocity // 2 * 2, 40, 86))


def _changes(values: Mapping[int, _T]) -> list[tuple[int, _T]]:
    """Ticks and values where values by sixteenth change."""
    runs = itertools.groupby(sorted(values.items()), key=lambda item: item[1])
    return [(next(run)[0] * _SIXTEENTH, value) for value, run in runs]


def _pick(random: np.random.Generator, options: Sequence[_T]) -> _T:
    """One of the options. Only `random` gives the same numbers in every version of numpy."""
    return options[int(random.random() * len(options))]
