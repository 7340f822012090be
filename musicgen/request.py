"""The options of a request for music, which `musicgen generate` and Python share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from musicgen.options import option


@dataclass(frozen=True)
class Length:
    """How long a piece is; the prompt counts."""

    bars: int | None = option(
        least=1,
        help="length in bars, prompt included; the last note ends with the last bar. Give bars, seconds or tokens",
    )
    seconds: float | None = option(
        above=0,
        most=10_000_000,
        help="length in seconds, prompt included; the piece ends less than a thirty-second note earlier",
    )
    tokens: int | None = option(
        least=1, help="length in tokens, prompt included; the piece ends soon after, or earlier"
    )


@dataclass(frozen=True)
class Choosing:
    """How the next token is chosen. If a value is null, the model's bundle or else the paper decides."""

    temperature: float | None = option(
        least=0, help="above 1 is more adventurous, below 1 less; 0 always takes the most likely token"
    )
    top_p: float | None = option(
        above=0, most=1, help="keeps only the most likely tokens that together have this probability"
    )
    top_k: int | None = option(least=1, help="keeps only this many of the most likely tokens")
    min_p: float | None = option(
        least=0, most=1, help="keeps only tokens that are at least this likely, relative to the likeliest"
    )
    rhythm_temperature: float | None = option(
        least=0, help="temperature of rhythm: when notes begin and how long they are; like temperature if not given"
    )
    rhythm_top_p: float | None = option(above=0, most=1, help="top_p of rhythm; like top_p if not given")
    rhythm_min_p: float | None = option(least=0, most=1, help="min_p of rhythm; like min_p if not given")


@dataclass(frozen=True)
class _Seed:
    """What help shows first of sampling."""

    seed: int = option(0, help="seed of the first piece; the next piece has the next seed")


@dataclass(frozen=True)
class Sampling(Choosing, _Seed):
    """How a piece is sampled."""

    draw: int | None = option(
        help="seed of the positional noise, which all pieces share; after from_state, that of the state"
    )
    grammar: bool = option(
        True, help="false samples freely, as in the paper: nothing is masked, and mistakes are counted"
    )


@dataclass(frozen=True)
class Reading:
    """How MIDI files are read, as prompts and for corpora."""

    pedal: bool | None = option(
        like="BOOL",
        help="true lengthens notes to the release of the sustain pedal, false leaves them; if not given, true except "
        "for songs of POP909 with their annotations",
    )

    grid: Literal["auto", "file"] = option(
        "auto",
        help="auto finds the beat of live playing that is not on the grid of its file; file believes the file",
    )


@dataclass(frozen=True)
class PromptReading(Reading):
    """How a prompt is read."""

    prompt_tempo: float | None = option(
        above=0, like="BPM", help="the tempo at which a live prompt is played, if the beat that is found is wrong"
    )
    beats: Path | None = option(
        like="FILE.txt",
        help="the beats of a live prompt: a line for each with its time in seconds, and 1 after it for a downbeat",
    )
    other: str | int | None = option(
        like="NAME or N",
        help="the track of a band that joins bass and drums (grooves), by its name or its number, counted from 1; if "
        "not given, the one with the most notes in the bars that are taken",
    )


@dataclass(frozen=True)
class RequestOptions(PromptReading, Sampling, Length):
    """All options of a request."""

    key: str | None = option(like="KEY", help="new notes and chords are of this key: C, F#m, Bb major")
    pitches: str | None = option(like="LOW-HIGH", help="range of new notes: C3-C6 or 48-84")
    polyphony: int | None = option(least=1, help="the most notes that may sound together")
    tempo: str | float | None = option(like="BPM", help="tempo in quarter notes per minute, 120, or a range, 90-130")
    metre: str | None = option(like="METRE", help="metre of new bars: 3/4, 6/8 (models with extended tokens)")
    chords: str | Sequence[str] | None = option(
        like="CHORDS", help="chords for the music, one for each bar, then again from the first: 'C Am F G'"
    )
    tracks: str | Sequence[str] | None = option(
        like="NAMES", help="which tracks play: piano; for grooves bass, drums and other"
    )
    ending: Literal["cadence", "open"] = option(
        "cadence",
        help="cadence leads the last bars home, to a long chord on the tonic (pop piano with a length in bars or "
        "seconds, from four bars on); open ends anywhere",
    )
    form: str | None = option(
        like="LETTERS",
        help="sections by letters, such as AABA; one that returns is repeated, with a new end (pop piano from nothing)",
    )
    section_bars: int = option(8, least=2, help="with form, how many bars each section has")
    prompt: Path | str | None = option(like="FILE.mid", help="a MIDI file to continue")
    prompt_bars: int | None = option(help="takes only this many bars of the prompt")
    from_state: Path | str | None = option(
        like="FILE.state", help="continues a piece from a state that states=last or states=bars saved"
    )
    fork_at: int | None = option(help="variations of a piece share this many bars")
    variations: int = option(1, least=1, help="how many continuations each piece has after fork_at")
    fill: str | None = option(
        like="BARS",
        help="writes these bars of the prompt anew and keeps all others: 9-12 or 9-12,17-18; for grooves also one "
        "instrument, drums:5-8",
    )
    rank: int | None = option(
        least=1, help="with fill, writes this many fills and keeps the n after which the given bars are likeliest"
    )
