"""`Groove`: the token language of accompaniments, as the rest of the program sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from musicgen.errors import UserError
from musicgen.languages.constraints import Constraints
from musicgen.languages.duplicates import Sketch
from musicgen.languages.examples import Examples
from musicgen.languages.grammar import Grammar
from musicgen.languages.grid import counted
from musicgen.languages.groove import layouts
from musicgen.languages.groove.codec import (
    BEGIN,
    END,
    KEYS,
    OFF,
    ON,
    SHIFT,
    VOCABULARY,
    GrooveReport,
    decode_report,
    encode_notes,
    ticks_after,
)
from musicgen.languages.groove.examples import GrooveExamples
from musicgen.languages.groove.grammar import Moment, groove_grammar
from musicgen.languages.groove.kin import OLD_NAMES, assign_grooves, check_kin
from musicgen.languages.groove.layouts import COUNT_IN, LAYOUTS, Kin, known_parts
from musicgen.languages.groove.mask import GrooveMask
from musicgen.languages.groove.quantise import PITCHES, TRIO, quantise_trio, take_trio
from musicgen.languages.groove.rendering import GrooveRendering, setting_of, tempo_of
from musicgen.languages.groove.song import PLACES, SEEN_STYLES, TEMPOS, GrooveSong, choose_notes
from musicgen.languages.groove.synthetic import compose_groove, family_of, style_name
from musicgen.languages.groove.table import make_table
from musicgen.languages.groove.time import BAR, TICKS, after_shift
from musicgen.languages.groove.window import take_window
from musicgen.languages.infill import GapShare
from musicgen.languages.language import PLAINLY, Encoded, Language, Places, Prompt
from musicgen.languages.layouts import Found
from musicgen.languages.metre import COMMON, in_metres
from musicgen.languages.panel import Panel
from musicgen.languages.prompt import load_prompt, report_of
from musicgen.languages.song import Read, Songs
from musicgen.languages.split import SPLITS
from musicgen.languages.vocabulary import Tokens
from musicgen.midi.score import DEFAULT_BPM, NOTE, Notes, Score, TimeSignature, Track, make_tempos
from musicgen.request import PromptReading


class Groove(Language):
    """The token language of grooves: 794 tokens, none of them for padding."""

    name = "groove"
    title = "grooves"
    vocabulary = VOCABULARY
    first, end = BEGIN, END
    meaningless = (BEGIN,)
    sampling: ClassVar[dict[str, float]] = {"temperature": 0.6}
    note_family = "NoteOn"
    rhythm = ("Shift",)
    grid = TICKS
    plays_apart = has_styles = True

    source, synthetic = "groove", "synthetic_grooves"
    layouts = LAYOUTS
    splits = (*SPLITS, *SEEN_STYLES)
    song_type = GrooveSong
    array, dtype, row = "notes.npy", NOTE, "note"

    @cached_property
    def grammar(self) -> Grammar[Moment]:
        """Which token may follow which."""
        return groove_grammar(VOCABULARY)

    def encode(self, score: Score) -> Encoded:
        """The trio of a piece in tokens."""
        trio, quantisation = quantise_trio(score)
        return Encoded(encode_notes(trio.notes), quantisation)

    def encode_notes(self, notes: Notes, end: int | None = None) -> Tokens:
        """Notes of a trio in tokens: see `musicgen.languages.groove.codec`."""
        return encode_notes(notes, end)

    def decode(self, tokens: NDArray[Any] | Sequence[int]) -> Score:
        """The trio that tokens stand for."""
        return decode_report(tokens)[0]

    def decode_report(self, tokens: NDArray[Any] | Sequence[int]) -> tuple[Score, GrooveReport]:
        """The trio that tokens stand for, and what was wrong with them."""
        return decode_report(tokens)

    def quantise(self, score: Score) -> Score:
        """The nearest trio that tokens can express."""
        return quantise_trio(score)[0]

    def unquantised(self, score: Score) -> Score:
        """The notes of the trio that `quantise` puts on the grid, as they are before it, in its bars."""
        return take_trio(in_metres(score, [COMMON]).score)

    def complete_bars(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        """How many bars are complete after each token, by the clock."""
        return ticks_after(tokens) // BAR

    def clock(self, tokens: Sequence[int] | NDArray[Any]) -> NDArray[np.float64]:
        """The time after each token, in beats."""
        return np.maximum.accumulate(ticks_after(tokens)) / TICKS

    def start_clock(self) -> GrooveClock:
        """The same, token by token."""
        return GrooveClock()

    def transposition(self, semitones: int) -> Tokens:
        """The map of ids that transposes bass and other.

        Drums stay. A pitch that would leave 0 to 127 moves back by octaves. There it may meet another pitch, so the map
        is not a permutation. Within the `headroom` of a piece, no two of its notes meet.
        """
        moved = np.arange(PITCHES) + semitones
        moved -= 12 * np.ceil((moved - PITCHES + 1) / 12).clip(0).astype(np.int64)
        moved += 12 * np.ceil(-moved / 12).clip(0).astype(np.int64)
        mapped = np.arange(len(VOCABULARY))
        for family in (ON, OFF):
            for track, instrument in enumerate(TRIO):
                if not instrument.is_drum:
                    first = family + PITCHES * track
                    mapped[first : first + PITCHES] = first + moved
        return mapped.astype(np.uint16)

    def headroom(self, tokens: NDArray[Any]) -> tuple[int, int]:
        """How far bass and other can move down (at most 0) and up (at least 0) within 0 to 127."""
        ids = np.asarray(tokens, np.int64)
        track, pitch = np.divmod(ids[ids < SHIFT] % KEYS, PITCHES)
        pitch = pitch[~np.array([instrument.is_drum for instrument in TRIO])[track]]
        if not len(pitch):
            return -PITCHES, PITCHES
        return -int(pitch.min()), PITCHES - 1 - int(pitch.max())

    # Corpora

    def find(self, folder: Path, layout: str, is_asked: bool) -> Found | None:
        """The accompaniments of a folder, with the style and family of each."""
        return layouts.find(folder, layout, is_asked)

    def compose(self, number: int, seed: int, bars: int) -> tuple[str, Score, Any]:
        """A synthetic accompaniment; two in a row are of one style."""
        style = number // 2
        kin = Kin(family_of(style), style_name(style))
        name = f"synthetic/{seed}/{kin.style}.{number:05d}"
        return name, compose_groove(seed * 1_000_003 + number, style, bars), kin

    def read(self, score: Score, path: str, sha256: str, layout: str, facts: Kin) -> Read:
        """All instruments of an accompaniment as a table of notes."""
        table = make_table(score, COUNT_IN.get(layout), known_parts(score, layout))
        begun = score.tempos["bpm"][score.tempos["tick"] <= score.notes["start"][0]]
        song = GrooveSong(
            path,
            sha256,
            family=facts.family,
            style=facts.style,
            notes=len(table.notes),
            bars=table.bars,
            count_in=table.counted,
            seconds=round(score.duration, 3),
            tempo=round(float(begun[-1].clip(*TEMPOS)), 3) if len(begun) else DEFAULT_BPM,
            tracks=table.instruments,
        )
        return Read(song, table.notes)

    def left_out(self, path: str, sha256: str | None, reason: str, facts: Kin) -> GrooveSong:
        """The record of a file that cannot be used."""
        return GrooveSong(path, sha256, dropped=reason, family=facts.family, style=facts.style)

    def assign(self, files: Sequence[Read], seed: int, lists: Mapping[str, str] | None) -> Any:
        """Splits by family of styles: see `assign_grooves`."""
        return assign_grooves(files, seed, lists)

    def fits(self, rows: Notes, songs: Sequence[GrooveSong]) -> bool:
        """Whether all columns have only values that notes of these grooves can have."""
        if not songs:
            return True
        ends = {
            "start": (0, BAR * max(song.bars for song in songs) - 1),
            "pitch": (0, PITCHES - 1),
            "velocity": (1, 127),
            "track": (0, max(len(song.tracks) for song in songs) - 1),
        }
        fits = all(low <= rows[name].min() and rows[name].max() <= high for name, (low, high) in ends.items())
        return fits and bool((rows["end"] > rows["start"]).all())

    def check_song(self, rows: Notes, song: GrooveSong) -> tuple[str, Sketch | None]:
        """Every note must be in range, on the track that the index says, and end before its pitch is struck again."""
        start, end, pitch = rows["start"], rows["end"], rows["pitch"]
        track = np.repeat(np.arange(len(song.tracks)), [track.notes for track in song.tracks])
        order = np.lexsort((start, pitch, track))
        is_same = (np.diff(track[order]) == 0) & (np.diff(pitch[order]) == 0)
        is_strange = (pitch < 0) | (pitch >= PITCHES) | (rows["velocity"] < 1) | (rows["velocity"] > 127)
        faults = {
            "a note outside its bars": (start < 0) | (start >= BAR * song.bars) | (end <= start),
            "a note whose pitch or velocity does not exist": is_strange,
            "a note on another track than the index says": rows["track"] != track,
            "a note on a pitch that still sounds": is_same & (start[order[1:]] < end[order[:-1]]),
        }
        return next((sentence for sentence, is_wrong in faults.items() if is_wrong.any()), ""), None

    def check_splits(self, songs: Sequence[GrooveSong], sketches: Mapping[str, Any]) -> Iterator[str]:  # noqa: ARG002
        """Sentences about kin in different splits, and about styles that should be trained on and are not."""
        try:
            check_kin(songs)
        except UserError as error:
            yield str(error)
        trained = {song.style for song in songs if song.split == "train"}
        for song in songs:
            if song.split in SEEN_STYLES and song.style not in trained:
                yield f"{song.path} ({song.split}): of the style {song.style}, which is not trained on"

    def fingerprint(self, song: GrooveSong) -> bytes:
        """The whole record of a song, with the old names of splits."""
        line = song.to_json()
        if song.split in OLD_NAMES:
            line = line.replace(f'"split": "{song.split}"', f'"split": "{OLD_NAMES[song.split]}"')
        return line.encode()

    def tokens_of(self, rows: Notes, song: GrooveSong) -> Tokens:
        """The trio of an accompaniment in tokens."""
        return encode_notes(choose_notes(rows, song))

    def score_of(self, rows: Notes, song: GrooveSong, every_part: bool = False) -> Score:
        """The trio of an accompaniment, or all its instruments, with names, programs and tempo."""
        own = tuple(Track(item.name, item.program, item.part == "drums", item.part) for item in song.tracks)
        notes, tracks = (rows, own) if every_part else (choose_notes(rows, song), song.trio_tracks())
        return Score(TICKS, notes, tracks, make_tempos([(0, song.tempo)]), (TimeSignature(0, 4, 4),))

    def summarise(self, songs: Songs) -> list[str]:
        """Styles and families in each split, and the instruments."""
        lines = []
        for split in self.splits:
            chosen = songs.songs(split)
            styles, families = len({song.style for song in chosen}), len({song.family for song in chosen})
            kinds = f"{counted(styles, 'style')} in {families:,} {'family' if families == 1 else 'families'}"
            lines.append(f"{split}: {counted(len(chosen), 'groove')} of {kinds}")
        kept = songs.songs()
        parts = Counter(part for song in kept for part in {track.part for track in song.tracks if track.notes})
        lines.append("grooves with " + ", ".join(f"{name}: {parts[name]:,}" for name in (*PLACES, "other")))
        lines.append(f"count-ins left out: {sum(song.count_in > 0 for song in kept):,}")
        return lines

    def panels(self, songs: Songs, rows: Notes) -> list[Panel]:
        """Instruments, pitches, onsets, and grooves of each style."""
        kept = songs.songs()
        names = (*PLACES, "other")
        tracks = [track for song in kept for track in song.tracks]
        part = np.repeat([names.index(track.part) for track in tracks], [track.notes for track in tracks])
        chosen = [rows[part == number] for number in range(len(names))]
        sizes = Counter(Counter(song.style for song in kept).values())
        order = sorted(sizes)
        pitches = [np.bincount(notes["pitch"], minlength=PITCHES) for notes in chosen]
        onsets = [np.bincount(notes["start"] % BAR, minlength=BAR) for notes in chosen]
        return [
            Panel("histogram", "instruments", "grooves", [len(song.tracks) for song in kept]),
            Panel("steps", "pitch (60 is middle C)", "notes", pitches, names),
            Panel("steps", "onset in the bar (twelfths of a beat)", "notes", onsets, names),
            Panel("bars", "grooves of a style", "styles", [sizes[size] for size in order], [*map(str, order)]),
        ]

    # Training and evaluation

    def examples(self, songs: Songs, split: str, length: int, augmentation: Mapping[str, float]) -> Examples:
        """Trios from some bar on, thinned out, transposed, and with drums of others."""
        transpose, mix_drums = int(augmentation["transpose"]), augmentation.get("mix_drums", 0.0)
        with_gaps = GapShare(self.infill, augmentation.get("infill", 0.0), length)
        return GrooveExamples(songs, songs.songs(split), length, transpose, mix_drums, with_gaps)

    def restarts(self, tokens: Tokens) -> list[Places]:
        """Notes that begin with a bar: first those before which no note sounds, then all of them."""
        begins, ends = tokens < OFF, (tokens >= OFF) & (tokens < SHIFT)
        is_first = begins & ~np.append(False, begins[:-1]) & (ticks_after(tokens) % BAR == 0)
        sounding = np.cumsum(begins.astype(np.int64) - ends)
        is_silent = np.append(0, sounding[:-1]) == 0
        return [np.flatnonzero(is_first & is_silent), np.flatnonzero(is_first)]

    def restart_context(self, tokens: NDArray[Any], start: int) -> Tokens:  # noqa: ARG002
        """Training examples begin with `BOS`, and so does a restarted window."""
        return np.array([BEGIN], np.uint16)

    # Sampling

    def grammar_mask(
        self, constraints: Constraints, tokens: Sequence[int], prompt_bars: int, setting: Mapping[str, Any]
    ) -> GrooveMask:
        """Keeps all constraints except chords."""
        return GrooveMask(self.grammar, constraints, tokens, prompt_bars, tempo_of(constraints, setting))

    def read_prompt(self, source: Path | str | Score, bars: int | None, reading: PromptReading = PLAINLY) -> Prompt:
        """The events of the first bars of a piece. Notes that sound at their end stay open."""
        score, name, done = load_prompt(source, reading)
        window = self._for_prompt(name, lambda: take_window(score, bars, reading.other))
        setting = setting_of(window.score, window.trio, (window.first + window.bars) * 4)
        return _prompt(window.notes, window.bars, setting, report_of(name, window.report, done, window.missing))

    def prompt_of(self, rows: Notes, song: GrooveSong, bars: int, name: str) -> Prompt:
        """The first bars of an accompaniment. The corpus knows the part of each track."""
        score = self.score_of(rows, song)
        taken = min(bars, song.bars)
        setting = setting_of(score, ((0,), (1,), (2,)), 4 * taken)
        return _prompt(score.notes, taken, setting, report_of(name, f"{counted(taken, 'bar')} taken"))

    def rendering(self, constraints: Constraints, setting: Mapping[str, Any]) -> GrooveRendering:
        """Pieces have the instruments, velocities and tempo of a setting, or plain ones."""
        return GrooveRendering(constraints, setting)


class GrooveClock:
    """The time of a piece, token by token."""

    def __init__(self) -> None:
        self._ticks = self._latest = 0

    def advance(self, token: int) -> float:
        """The time after a token, in beats."""
        if SHIFT <= token < END:
            self._ticks = after_shift(self._ticks, token - SHIFT + 1)
            self._latest = max(self._latest, self._ticks)
        return self._latest / TICKS


def _prompt(notes: Notes, bars: int, setting: Mapping[str, Any], report: str) -> Prompt:
    """The events of the first bars of a trio, in ticks of 12 per beat. Notes that end with the last bar have ended."""
    tokens = encode_notes(notes[notes["start"] < bars * BAR])[:-1]
    tokens = tokens[ticks_after(tokens) <= bars * BAR]
    while tokens[-1] >= SHIFT and len(tokens) > 1:  # a shift belongs to the event that it leads to
        tokens = tokens[:-1]
    return Prompt(tokens.tolist(), bars, setting, report)
