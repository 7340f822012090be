"""Drawing a `Score` as a piano roll, in rows like a page of sheet music.

Design note: the size of the picture is limited for any piece. Up to 64 bars are drawn with eight per row, large
enough to see every note. Longer pieces have more bars per row, and notes that fall on the same pixels are drawn once.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from musicgen.midi.chord import NO_CHORD, Chord
from musicgen.midi.markers import section_letter
from musicgen.midi.score import Notes, Score, make_notes
from musicgen.midi.write import bar_lines, playable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5195", "#8c6d31")
"""Colour-blind readers can distinguish them. Further tracks start again with the first."""
DRUM_COLOUR = "#333333"
PROMPT_COLOUR = "#fff1cc"
SOURCE_COLOUR = "#111111"
QUALITIES = {"M": "", "o": "°", "o7": "°7", "/o7": "ø7", "M7": "maj7"}
"""How chord charts write the qualities that have another name there."""

MOST_ROWS = 8
BARS_IN_A_ROW = 8
"""For up to 64 bars; then 12, 16, 24, 32 ..."""
MOST_NAMES = 10
LONGEST_NAME = 24

DOTS = 110  # to the inch
WIDTH, LEFT, RIGHT, TOP, BOTTOM, GAP = 14.0, 0.55, 0.2, 0.75, 0.45, 0.48  # inches
HEIGHTS = {1: 3.6, 2: 2.6, 3: 2.1}  # of a row, by the number of rows
SMALLEST_HEIGHT = 1.6
DRUM_HEIGHT = 0.4
CHORD_WIDTH, NUMBER_WIDTH = 0.5, 0.4


def draw_piano_roll(score: Score, title: str = "", prompt_end: int = 0, source: Score | None = None) -> bytes:
    """A picture of a score as a PNG. The same score gives the same bytes.

    Args:
        score: The score. Notes that MIDI cannot express are left out.
        title: The line above the picture.
        prompt_end: Music before this tick is shaded as a prompt.
        source: What the score was made from, in the same bars: its notes are drawn as outlines.
    """
    figure = _draw(score, title, prompt_end, source)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=DOTS, metadata={"Software": None})
    return picture.getvalue()


@dataclass(frozen=True)
class _Page:
    """What all rows of a picture share."""

    score: Score
    notes: Notes
    bars: NDArray[np.int64]
    """Ticks of all bar lines, including the one that ends the last bar."""
    bars_in_row: int
    ticks_in_row: int
    low: int
    high: int
    drums: NDArray[np.int64]
    """Pitches of drums, one lane each, from the top down."""
    source: Score | None
    """What the score was made from, in ticks of its own."""

    @property
    def rows(self) -> int:
        return -(-(len(self.bars) - 1) // self.bars_in_row)

    @property
    def inches(self) -> float:
        """Length of a tick in inches."""
        return (WIDTH - LEFT - RIGHT) / self.ticks_in_row

    @property
    def floor(self) -> float:
        """The lowest pitch that is shown. Drums have lanes below all others."""
        return self.low - (2 + self.lane * len(self.drums) if len(self.drums) else 0)

    @property
    def lane(self) -> float:
        return float(np.clip(10 / max(len(self.drums), 1), 0.6, 2))


def _lay_out(score: Score, source: Score | None = None) -> _Page | None:
    """The layout of a score. None if it has no notes."""
    notes = playable(score.notes)
    if not len(notes):
        return None
    end = 0 if source is None else -(-source.end * score.ticks_per_beat // source.ticks_per_beat)
    bars = _bars(score, max(int(notes["end"].max()), end))
    in_row = min(BARS_IN_A_ROW, len(bars) - 1)
    while in_row * MOST_ROWS < len(bars) - 1:
        in_row = in_row * 4 // 3 if in_row % 3 == 0 else in_row * 3 // 2
    starts = np.append(bars[:-1:in_row], bars[-1])
    is_drum = score.is_drum(notes)
    pitches = notes["pitch"][~is_drum]
    low, high = (int(pitches.min()), int(pitches.max())) if len(pitches) else (60, 60)
    room = max(24 - (high - low), 4)  # at least two octaves, with some space above and below
    return _Page(
        score=score,
        notes=notes,
        bars=bars,
        bars_in_row=in_row,
        ticks_in_row=int(np.diff(starts).max()),
        low=max(low - room // 2, -2),
        high=min(high + room - room // 2, 129),
        drums=np.unique(notes["pitch"][is_drum])[::-1].astype(np.int64),
        source=source,
    )


def _bars(score: Score, end: int) -> NDArray[np.int64]:
    """Bar lines up to the first at or after a tick."""
    longest = 4 * 255 * score.ticks_per_beat
    later = bar_lines(score.replace(notes=make_notes([end + longest], [end + longest + 1], [60], [1])))
    return later[: np.searchsorted(later, end) + 1]


def _draw(score: Score, title: str, prompt_end: int, source: Score | None) -> Figure:
    from matplotlib.figure import Figure

    page = _lay_out(score, source)
    rows = page.rows if page else 1
    height = HEIGHTS.get(rows, SMALLEST_HEIGHT) + (DRUM_HEIGHT if page and len(page.drums) else 0)
    total = TOP + rows * height + (rows - 1) * GAP + BOTTOM
    figure = Figure(figsize=(WIDTH, total))
    figure.text(LEFT / WIDTH, 1 - 0.22 / total, _printable(title, 90), size=13, weight="bold", va="center",
                parse_math=False)  # fmt: skip
    for row in range(rows):
        bottom = total - TOP - (row + 1) * height - row * GAP
        axes = figure.add_axes((LEFT / WIDTH, bottom / total, 1 - (LEFT + RIGHT) / WIDTH, height / total))
        axes.spines[:].set_visible(False)
        if page is None:
            axes.set(xticks=[], yticks=[])
            axes.text(0.5, 0.5, "no notes", size=16, color="0.5", ha="center", va="center")
        else:
            _draw_row(axes, page, row, prompt_end)
    if page is not None:
        _draw_legend(figure, page, 1 - 0.22 / total)
    return figure


def _draw_row(axes: Axes, page: _Page, row: int, prompt_end: int) -> None:
    lines = page.bars[row * page.bars_in_row : (row + 1) * page.bars_in_row + 1]
    start, end = int(lines[0]), int(lines[-1])
    axes.set(xlim=(start, start + page.ticks_in_row), ylim=(page.floor - 1, page.high + 1))
    if prompt_end > start:
        axes.axvspan(start, min(prompt_end, end), color=PROMPT_COLOUR, zorder=0, linewidth=0)
        if row == 0:
            _write(axes, start, page.high + 1, "prompt", (4, -3), size=8, style="italic", color="#8a6d1f", va="top")
        if prompt_end <= end:
            axes.axvline(prompt_end, color="#d9b24c", linewidth=1.2, zorder=1)
    for tick, text in page.score.markers:
        if start <= tick < end and section_letter(text):
            axes.axvline(tick, color="0.45", linewidth=1.2, zorder=1)
            _write(axes, tick, page.high + 1, section_letter(text), (4, -3), size=10, weight="bold", va="top")
    step = _stride(page, NUMBER_WIDTH)
    numbers = np.arange(row * page.bars_in_row, row * page.bars_in_row + len(lines) - 1)
    numbers = numbers[numbers % step == 0]
    drawn = lines if step == 1 else page.bars[numbers]
    axes.vlines(drawn, page.floor - 1, page.high + 1, color="0.78", linewidth=0.7, zorder=1)
    _draw_beats(axes, page, lines)
    axes.set_xticks(page.bars[numbers], [str(number + 1) for number in numbers], size=8, color="0.4", ha="left")
    octaves = [pitch for pitch in range(0, 128, 12) if page.low <= pitch <= page.high]
    axes.hlines(octaves, start, end, color="0.88", linewidth=0.7, zorder=0.5)
    labels = [(float(pitch), f"C{pitch // 12 - 1}") for pitch in octaves]
    if len(page.drums):
        axes.hlines([page.low - 1], start, end, color="0.72", linewidth=0.7, zorder=0.5)
        labels.append(((page.floor + page.low) / 2 - 1, "drums"))
    axes.set_yticks([place for place, _ in labels], [text for _, text in labels], size=8, color="0.4")
    axes.tick_params(length=0, pad=3)
    _draw_notes(axes, page, start, end)
    if page.source is not None:
        _draw_outlines(axes, page, page.source, start, end)
    _draw_chords(axes, page, start, end)


def _stride(page: _Page, inches: float) -> int:
    """The smallest step in bars (1, 2, 4, 8 ...) that leaves this much room."""
    step = 1
    while step * page.inches * page.ticks_in_row / page.bars_in_row < inches:
        step *= 2
    return step


def _draw_beats(axes: Axes, page: _Page, lines: NDArray[np.int64]) -> None:
    """Draw faint lines at quarter notes, if there is room."""
    if page.inches * page.score.ticks_per_beat > 0.2:
        beats = [np.arange(a, b, page.score.ticks_per_beat)[1:] for a, b in itertools.pairwise(lines)]
        axes.vlines(np.concatenate(beats), page.floor - 1, page.high + 1, color="0.93", linewidth=0.6, zorder=0.4)


def _draw_notes(axes: Axes, page: _Page, start: int, end: int) -> None:
    """Draw notes as boxes, darker if louder, and drums as marks."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgb

    notes = page.notes[(page.notes["start"] < end) & (page.notes["end"] > start)]
    pixel = 1 / (page.inches * DOTS)
    columns = (notes["start"].clip(start) - start) // pixel
    lasting = (notes["end"].clip(max=end) - start) // pixel
    # Sorted by velocity: of notes on the same pixels the loudest is kept, and loud notes are drawn on top.
    order = np.argsort(-notes["velocity"], kind="stable")
    places = np.stack([columns, lasting, notes["pitch"], notes["track"]])[:, order]
    kept = order[np.sort(np.unique(places, axis=1, return_index=True)[1])][::-1]
    notes = notes[kept]
    drums = page.score.is_drum(notes)
    _draw_drums(axes, page, notes[drums & (notes["start"] >= start)])
    notes = notes[~drums]
    left = notes["start"].clip(start).astype(float)
    right = np.maximum(notes["end"].clip(max=end), left + 1.5 * pixel)  # keeps the shortest notes visible
    half = 0.45 if page.rows <= 2 else 0.65  # small rows are easier to read if neighbours touch
    bottom, top = notes["pitch"] - half, notes["pitch"] + half
    corners = np.stack([left, bottom, left, top, right, top, right, bottom], 1).reshape(-1, 4, 2)
    hues = np.array([to_rgb(COLOURS[number % len(COLOURS)]) for number in range(len(page.score.tracks))])
    loudness = 0.3 + 0.7 * notes["velocity"].clip(1, 127)[:, None] / 127
    faces = 1 - loudness * (1 - hues[notes["track"]])  # mixed with white, not transparent
    roomy = page.bars_in_row <= 4 * BARS_IN_A_ROW
    axes.add_collection(
        PolyCollection(
            list(corners),
            facecolors=faces,
            edgecolors="white" if roomy else "none",
            linewidths=0.3 if roomy else 0,
            snap=not roomy,  # snapping would make some notes thicker than others
            antialiaseds=roomy,  # sharp dots keep the file small
            zorder=3,
        ),
        autolim=False,
    )


def _draw_outlines(axes: Axes, page: _Page, source: Score, start: int, end: int) -> None:
    """Draw the notes of the source as boxes without a filling."""
    from matplotlib.collections import PolyCollection

    tick = page.score.ticks_per_beat / source.ticks_per_beat
    notes = playable(source.notes)
    notes = notes[(notes["start"] * tick < end) & (notes["end"] * tick > start)]
    drums = source.is_drum(notes)
    struck = notes[drums & (notes["start"] * tick >= start) & np.isin(notes["pitch"], page.drums)]
    axes.scatter(struck["start"] * tick, _lanes(page, struck), s=26, marker="D", facecolors="none",
                 edgecolors=SOURCE_COLOUR, linewidths=0.6, clip_on=False, zorder=3.5)  # fmt: skip
    notes = notes[~drums]
    left, right = (notes["start"] * tick).clip(start), (notes["end"] * tick).clip(max=end)
    bottom, top = notes["pitch"] - 0.5, notes["pitch"] + 0.5
    corners = np.stack([left, bottom, left, top, right, top, right, bottom], 1).reshape(-1, 4, 2)
    outlines = PolyCollection(list(corners), facecolors="none", edgecolors=SOURCE_COLOUR, linewidths=0.6, zorder=3.5)
    axes.add_collection(outlines, autolim=False)


def _lanes(page: _Page, notes: Notes) -> NDArray[np.floating[Any]]:
    """The heights at which drums are drawn."""
    return page.low - 2 - page.lane * np.searchsorted(-page.drums, -notes["pitch"].astype(np.int64))


def _draw_drums(axes: Axes, page: _Page, notes: Notes) -> None:
    size = 14 if page.bars_in_row <= BARS_IN_A_ROW else 5 if page.bars_in_row <= 4 * BARS_IN_A_ROW else 1
    shade = 0.75 * (1 - notes["velocity"].clip(1, 127) / 127)
    axes.scatter(
        notes["start"],
        _lanes(page, notes),
        s=size,
        c=np.repeat(shade[:, None], 3, 1),
        marker="D",
        linewidths=0,
        antialiaseds=size > 1,
        clip_on=False,  # marks on the first line are not cut
        zorder=3,
    )


def _draw_chords(axes: Axes, page: _Page, start: int, end: int) -> None:
    """Write the chord names that have room above the row, or none if most do not."""
    before = [mark._replace(tick=start) for mark in page.score.chords if mark.tick < start][-1:]
    inside = [mark for mark in page.score.chords if start <= mark.tick < end]
    if not inside or inside[0].tick > start:
        inside = before + inside  # repeat the chord that still holds
    changes = [mark for place, mark in enumerate(inside) if not place or mark.chord != inside[place - 1].chord]
    shown = list(_spaced(changes, CHORD_WIDTH / page.inches))
    if 2 * len(shown) <= len(changes):
        return
    for mark in shown:
        _write(axes, mark.tick, page.high + 1, _chord_name(mark.chord), (0, 3), size=8.5, color="0.15", va="bottom")


def _write(axes: Axes, tick: int, pitch: float, text: str, points: tuple[float, float], **style: Any) -> None:
    """Write text near a place, at an offset in points."""
    axes.annotate(text, (tick, pitch), xytext=points, textcoords="offset points", annotation_clip=False, zorder=4,
                  **style)  # fmt: skip


def _spaced(marks: list[Any], ticks: float) -> Iterator[Any]:
    last = -np.inf
    for mark in marks:
        if mark.tick - last >= ticks:
            last = mark.tick
            yield mark


def _chord_name(chord: Chord) -> str:
    """The name of a chord in a chart: `Am7`, `B♭maj7`, `N.C.`."""
    if chord == NO_CHORD:
        return "N.C."
    return chord.root_name.replace("#", "♯").replace("b", "♭") + QUALITIES.get(chord.quality, chord.quality)


def _draw_legend(figure: Figure, page: _Page, top: float) -> None:
    from matplotlib.lines import Line2D

    used = np.unique(page.notes["track"]).tolist()
    if len(used) < 2 and page.source is None:
        return
    handles = []
    if page.source is not None:
        outline = {"marker": "s", "markerfacecolor": "none", "color": SOURCE_COLOUR, "linewidth": 0}
        handles.append(Line2D([], [], label="the file (outlines) and its tokens (filled)", **outline))  # type: ignore[arg-type]
    if len(used) < 2:
        used = []
    for number in used[:MOST_NAMES]:
        track = page.score.tracks[number]
        name = _printable(track.name, LONGEST_NAME) or f"track {number + 1}"
        mark: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "linewidth": 5}
        if track.is_drum:
            mark = {"color": DRUM_COLOUR, "linewidth": 0, "marker": "D", "markersize": 4.5}
        handles.append(Line2D([], [], label=name, **mark))
    if len(used) > MOST_NAMES:
        handles.append(Line2D([], [], linewidth=0, label=f"and {len(used) - MOST_NAMES} more"))
    legend = figure.legend(
        handles=handles, loc="center right", bbox_to_anchor=(1 - RIGHT / WIDTH, top), ncols=len(handles),
        frameon=False, fontsize=8.5, handlelength=1.2, columnspacing=1.4, borderaxespad=0, handletextpad=0.5,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)  # a dollar sign starts no formula


def _printable(text: str, longest: int) -> str:
    """Text cut to a length, with a square for each letter that the font lacks (which would raise a warning)."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    known = get_font(findfont(FontProperties())).get_charmap()
    text = "".join(letter if ord(letter) in known and letter.isprintable() else "□" for letter in text.strip())
    return text if len(text) <= longest else text[: longest - 1] + "…"
