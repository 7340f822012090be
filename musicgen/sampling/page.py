"""The page that shows generated pieces: sound, piano roll, files, and how sure the model was bar by bar.

Design note: the page is one small text file that links to the sounds and pictures in its folder. It opens from a disk,
stays small with a hundred pieces, and moves with its folder.
Without scripts it shows pictures and plays sound files. With them it has the piano roll and the player of the studio,
which need no other file: pieces without a sound file are played by simple instruments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from musicgen.web import render_page

MOST_COLUMNS = 200
"""Columns of a chart. In a longer piece each column shows the mean of several bars."""
FEWEST_COLUMNS = 16
"""A chart has room for at least this many, so that the columns of a short piece are not too wide."""
MOST_MUSIC = 4_000_000
"""Characters of music in a page. The pieces after them have only their pictures."""
AXIS, ABOVE, BELOW = 62, 60, 36  # the line of a chart, measured from its top, and the room above and below the line
LEAST_SURPRISE, LEAST_MASKED = 1.0, 0.01
"""The top of each scale is at least this, so that very small values look small."""


@dataclass(frozen=True)
class Entry:
    """One piece on the page."""

    name: str
    """Its title, for people."""
    files: Mapping[str, str]
    """Kind (`mid`, `json`, `png`, `wav`) to file name relative to the page. A wav is played, a png is shown."""
    facts: Mapping[str, str]
    likelihood: Sequence[float]
    """Mean log-likelihood of a token in nats, by bar; nan where it is not known."""
    masked: Sequence[float]
    """Share of the probability that the masks took away, by bar; nan where it is not known."""
    prompt_bars: int = 0
    """How many bars at the start are the prompt."""
    music: str = ""
    """Its bars as JSON, for the piano roll and the player; empty leaves only the picture and the sound file."""


def page(
    title: str,
    settings: Mapping[str, str],
    entries: Sequence[Entry],
    notes: Sequence[str] = (),
    offers_sound: bool = True,
) -> str:
    """The page as HTML. The same arguments give the same text.

    Args:
        title: The heading.
        settings: Every setting of the call, in the order in which to show them.
        entries: The pieces.
        notes: Sentences that are shown at the top.
        offers_sound: Whether the command that makes the page can add sound files.
    """
    sizes = accumulate(len(entry.music) for entry in entries)
    entries = [
        entry if size <= MOST_MUSIC else replace(entry, music="") for entry, size in zip(entries, sizes, strict=True)
    ]
    columns = [_columns(entry) for entry in entries]
    # One scale for all pieces, so that they can be compared.
    surprise = _tallest((-column.likelihood for chart in columns for column in chart), LEAST_SURPRISE)
    masked = _tallest((column.masked for chart in columns for column in chart), LEAST_MASKED)
    charts = [_chart(own, entry.prompt_bars, surprise, masked) for entry, own in zip(entries, columns, strict=True)]
    sounds = sum("wav" in entry.files for entry in entries)
    return render_page(
        "gallery",
        title,
        with_script=sounds > 1,
        with_pieces=any(entry.music for entry in entries),
        count=_count(len(entries), "piece"),
        sounds=sounds,
        offers_sound=offers_sound,
        notes=notes,
        pieces=list(zip(entries, charts, strict=True)),
        charted=any(charts),
        axis=AXIS,
        settings=settings,
    )


class _Column(NamedTuple):
    """What a chart shows at one place: the means of some bars, nan where nothing is known."""

    first: int
    last: int
    likelihood: float
    masked: float


class _Chart(NamedTuple):
    """A chart. Surprise stands on its line, and masked probability hangs from it.

    Attributes:
        room: How many columns it has room for.
        prompt: How many columns are of the prompt.
        surprise, masked: SVG paths.
        columns: What each column says when the pointer is on it.
        legend: A CSS class, or nothing, and words.
    """

    room: int
    prompt: float
    surprise: str
    masked: str
    columns: list[str]
    legend: list[tuple[str, str]]


def _columns(entry: Entry) -> list[_Column]:
    bars = max(len(entry.likelihood), len(entry.masked))
    step = max(-(-bars // MOST_COLUMNS), 1)
    return [
        _Column(
            start,
            min(start + step, bars) - 1,
            _mean(entry.likelihood[start : start + step]),
            _mean(entry.masked[start : start + step]),
        )
        for start in range(0, bars, step)
    ]


def _mean(values: Sequence[float]) -> float:
    known = [float(value) for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _tallest(values: Iterable[float], least: float) -> float:
    return max([least, *(value for value in values if math.isfinite(value))])


def _chart(columns: Sequence[_Column], prompt_bars: int, surprise: float, masked: float) -> _Chart | None:
    """The chart of a piece, on the scales that all pieces share; None if nothing is known about the piece."""
    if not columns:
        return None
    bars, step = columns[-1].last + 1, columns[0].last + 1
    prompt = max(min(prompt_bars, bars), 0)
    lowest = [column.likelihood for column in columns if not math.isnan(column.likelihood)]
    highest = [column.masked for column in columns if not math.isnan(column.masked)]
    legend = [("", f"{_count(bars, 'bar')}{f', {step} in a column' if step > 1 else ''}")]
    if prompt:
        legend.insert(0, ("prompt", f"prompt of {_count(prompt, 'bar')}"))
    if highest:
        legend.insert(0, ("masked", f"masks up to {_percent(max(highest))}"))
    if lowest:
        legend.insert(0, ("surprise", f"surprise up to {_number(-min(lowest))} nats"))
    return _Chart(
        max(len(columns), FEWEST_COLUMNS),
        prompt / step,
        _path(columns, lambda column: -ABOVE * _share(-column.likelihood, surprise)),
        _path(columns, lambda column: BELOW * _share(column.masked, masked)),
        [_describe(column, prompt) for column in columns],
        legend,
    )


def _path(columns: Sequence[_Column], height: Callable[[_Column], float]) -> str:
    """All columns as one SVG path, which is shorter than one shape for each."""
    return "".join(
        f"M{number}.1 {AXIS}v{length:.1f}h.8V{AXIS}z"
        for number, length in enumerate(map(height, columns))
        if abs(length) >= 0.05
    )


def _share(value: float, tallest: float) -> float:
    return 0.0 if math.isnan(value) else min(max(value / tallest, 0.0), 1.0)


def _describe(column: _Column, prompt: int) -> str:
    one = column.first == column.last
    place = f"bar {column.first + 1}" if one else f"bars {column.first + 1:,} to {column.last + 1:,}"
    facts = [
        *([f"log-likelihood {_number(column.likelihood)} per token"] if not math.isnan(column.likelihood) else []),
        *([f"masks took {_percent(column.masked)}"] if not math.isnan(column.masked) else []),
    ]
    return f"{place}{' (prompt)' if column.last < prompt else ''}: {', '.join(facts) or 'nothing known'}"


def _number(value: float) -> str:
    return f"{value + 0.0:.3g}".replace("-", "−").replace("inf", "∞")  # adding 0.0 turns −0.0 into 0.0


def _percent(share: float) -> str:
    return f"{_number(100 * share)}\N{NO-BREAK SPACE}%"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
