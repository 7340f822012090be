"""The page that shows generated pieces: sound, piano roll, files, and how sure the model was bar by bar.

The hard choice: the page is one file of text, with its style inside and nothing from a network, and points to the
sounds and pictures beside it. It opens from a disk, stays small with a hundred pieces, and moves with its folder; but
alone, without the folder, it shows only words and charts. Everything works with scripts off; the one script stops a
piece when another starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from musicgen.web import document, escape, wrapped

MOST_COLUMNS = 200
"""Of a chart; in a longer piece each stands for several bars."""
FEWEST_COLUMNS = 16
"""That a chart has room for, so that a piece of one bar is not a wall."""
AXIS, ABOVE, BELOW = 62, 60, 36  # the line of a chart from its top, and the room above and below the line
LEAST_SURPRISE, LEAST_PRESSURE = 1.0, 0.01
"""The tallest column is at least this, so that next to nothing looks like it."""


@dataclass(frozen=True)
class Entry:
    """One piece on the page."""

    name: str
    files: Mapping[str, str]
    """Kind (`mid`, `json`, `png`, `wav`) to file name relative to the page. A wav is played, a png is shown."""
    facts: Mapping[str, str]
    likelihood: Sequence[float]
    """Mean log-likelihood of a token in nats, by bar; nan where it is not known."""
    pressure: Sequence[float]
    """Share of the probability that the masks took away, by bar; nan where it is not known."""
    prompt_bars: int = 0
    """The first so many bars are a prompt."""


def page(title: str, settings: Mapping[str, str], entries: Sequence[Entry], notes: Sequence[str] = ()) -> str:
    """The page as HTML. The same arguments give the same text.

    Args:
        title: A line above it all.
        settings: Every setting of the call, in the order in which to show them.
        entries: The pieces.
        notes: Sentences for people, shown at the top.
    """
    charts = [_columns(entry) for entry in entries]
    # One scale for all pieces, so that they can be compared.
    surprise = _tallest((-column.likelihood for chart in charts for column in chart), LEAST_SURPRISE)
    pressure = _tallest((column.pressure for chart in charts for column in chart), LEAST_PRESSURE)
    cards = [
        _card(entry, _chart(entry, chart, surprise, pressure)) for entry, chart in zip(entries, charts, strict=True)
    ]
    sounds = sum("wav" in entry.files for entry in entries)
    body = [
        "<header>",
        f"<h1>{escape(title)}</h1>",
        f"<p>{_count(len(entries), 'piece')}{'' if sounds or not entries else '; wav=true adds sound'}</p>",
        "</header>",
        *wrapped("<ul>", [f"<li>{escape(note)}</li>" for note in notes], "</ul>"),
        "<main>",
        *(cards or ["<p>No piece was made, so there is nothing to see or hear.</p>"]),
        "</main>",
        "<footer>",
        *([GUIDE] if any(charts) else []),
        *wrapped(
            "<details><summary>Settings</summary><table>",
            [f'<tr><th scope="row">{escape(key)}</th><td>{escape(value)}</td></tr>' for key, value in settings.items()],
            "</table></details>",
        ),
        "</footer>",
    ]
    return document(title, STYLE, body, SCRIPT if sounds > 1 else "")


def _card(entry: Entry, chart: str) -> str:
    name = escape(entry.name)
    facts = [f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in entry.facts.items()]
    parts = ["<article>", f"<h2>{name}</h2>", *wrapped("<dl>", facts, "</dl>")]
    if "wav" in entry.files:
        link = _link(entry.files["wav"])
        parts.append(f'<audio controls preload="none" src="{link}" aria-label="Sound of {name}"></audio>')
    if "png" in entry.files:
        link = _link(entry.files["png"])
        picture = f'<img src="{link}" alt="Piano roll of {name}" loading="lazy">'
        # In a tab of its own, so that what plays goes on.
        parts.append(f'<a class="roll" href="{link}" target="_blank" title="Open in full size">{picture}</a>')
    parts.append(chart)
    files = [
        f'<li><a href="{_link(file)}" download title="Download {escape(file)}">.{escape(kind)}</a></li>'
        for kind, file in entry.files.items()
    ]
    links = wrapped(f'<ul class="files" aria-label="Files of {name}">', files, "</ul>")
    return "\n".join([*parts, *links, "</article>"])


@dataclass(frozen=True)
class _Column:
    """What a chart shows at one place: means over some bars, nan where nothing is known."""

    first: int
    last: int
    likelihood: float
    pressure: float


def _columns(entry: Entry) -> list[_Column]:
    bars = max(len(entry.likelihood), len(entry.pressure))
    step = -(-bars // MOST_COLUMNS)
    return [
        _Column(
            first=start,
            last=min(start + step, bars) - 1,
            likelihood=_mean(entry.likelihood[start : start + step]),
            pressure=_mean(entry.pressure[start : start + step]),
        )
        for start in range(0, bars, max(step, 1))
    ]


def _mean(values: Sequence[float]) -> float:
    known = [float(value) for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _tallest(values: Iterable[float], least: float) -> float:
    return max([least, *(value for value in values if math.isfinite(value))])


def _chart(entry: Entry, columns: Sequence[_Column], surprise: float, pressure: float) -> str:
    """Surprise stands on a line, pressure hangs from it; what the pointer is on says its numbers."""
    if not columns:
        return ""
    bars, step = columns[-1].last + 1, columns[0].last + 1
    prompt = min(entry.prompt_bars, bars)
    standing = _path(columns, lambda column: -ABOVE * _share(-column.likelihood, surprise))
    hanging = _path(columns, lambda column: BELOW * _share(column.pressure, pressure))
    places = "".join(
        f'<rect x="{number}" width="1" height="100"><title>{_describe(column, prompt)}</title></rect>'
        for number, column in enumerate(columns)
    )
    shade = f'<rect class="prompt" width="{prompt / step:.3f}" height="100"></rect>' if prompt > 0 else ""
    lowest = [column.likelihood for column in columns if not math.isnan(column.likelihood)]
    highest = [column.pressure for column in columns if not math.isnan(column.pressure)]
    legend = [
        *([f'<span class="surprise">surprise up to {_number(-min(lowest))} nats</span>'] if lowest else []),
        *([f'<span class="pressure">masks up to {_percent(max(highest))}</span>'] if highest else []),
        *([f'<span class="prompt">prompt of {_count(prompt, "bar")}</span>'] if prompt > 0 else []),
        f"<span>{_count(bars, 'bar')}{f', {step} in a column' if step > 1 else ''}</span>",
    ]
    room = max(len(columns), FEWEST_COLUMNS)
    return "\n".join(
        [
            "<figure>",
            f'<svg viewBox="0 0 {room} 100" preserveAspectRatio="none" role="img" '
            f'aria-label="Surprise and mask pressure of {escape(entry.name)}, bar by bar">',
            f'{shade}<path class="surprise" d="{standing}"/><path class="pressure" d="{hanging}"/>',
            f'<path class="axis" d="M0 {AXIS}h{room}"/><g>{places}</g>',
            "</svg>",
            f"<figcaption>{' '.join(legend)}</figcaption>",
            "</figure>",
        ]
    )


def _path(columns: Sequence[_Column], height: Callable[[_Column], float]) -> str:
    """Bars on the line, as one shape: a hundred pieces have many."""
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
    said = [
        *([f"log-likelihood {_number(column.likelihood)} a token"] if not math.isnan(column.likelihood) else []),
        *([f"masks took {_percent(column.pressure)}"] if not math.isnan(column.pressure) else []),
    ]
    return f"{place}{' (prompt)' if column.last < prompt else ''}: {', '.join(said) or 'nothing known'}"


def _number(value: float) -> str:
    return f"{value + 0.0:.3g}".replace("-", "−").replace("inf", "∞")  # 0.0 makes zero of minus zero


def _percent(share: float) -> str:
    return f"{_number(100 * share)}\N{NO-BREAK SPACE}%"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _link(file: str) -> str:
    """A file name for `src` and `href`: a colon is no scheme, a name that is no text keeps its bytes."""
    return quote(file, errors="surrogateescape")


GUIDE = """\
<p>The charts show the pieces bar by bar, all on one scale. Above the line: how surprising the model found the tokens of
a bar, which is minus their mean log-likelihood. Below it: the share of the probability that the masks took away,
because it was on tokens that may not come next. Point at a bar to read its numbers.</p>"""

SCRIPT = """
document.addEventListener("play", event => {
  for (const sound of document.querySelectorAll("audio")) if (sound !== event.target) sound.pause();
}, true);
"""

STYLE = """
:root { --surprise: #2f86bd; --pressure: #d5690f; --prompt: #fbe9bd; }  /* as in the piano rolls */
@media (prefers-color-scheme: dark) {
  :root { --surprise: #56a9dd; --pressure: #ef8f3e; --prompt: #4a3d1b; }
  .roll img { filter: invert(1) hue-rotate(180deg) brightness(1.5); mix-blend-mode: screen; }  /* white would dazzle */
}
body > ul { margin: 0 0 1.6rem; padding-left: 1.2rem; max-width: 70ch; }
main {
  display: grid; gap: clamp(1rem, 2vw, 1.8rem); align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 36rem), 1fr));
}
article {
  display: flex; flex-direction: column; gap: 0.9rem; min-width: 0; padding: clamp(1rem, 2vw, 1.5rem);
  background: var(--card); border: 1px solid var(--line); border-radius: 14px;
}
dl { display: flex; flex-wrap: wrap; gap: 0.3rem 1.4rem; margin: 0; }
dt { color: var(--faint); font-size: 0.8rem; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
audio { width: 100%; height: 2.75rem; }
.roll { display: block; border: 1px solid var(--line); border-radius: 8px; overflow: hidden; cursor: zoom-in; }
.roll img { display: block; width: 100%; height: auto; aspect-ratio: auto 2 / 1; }
svg { display: block; width: 100%; height: 6rem; }
svg .surprise { fill: var(--surprise); }
svg .pressure { fill: var(--pressure); }
svg .prompt { fill: var(--prompt); }
svg .axis { stroke: var(--faint); vector-effect: non-scaling-stroke; }
svg g { fill: transparent; }
svg g rect:hover { fill: var(--ink); opacity: 0.15; }
figcaption {
  display: flex; flex-wrap: wrap; gap: 0 1.2rem; margin-top: 0.4rem; color: var(--faint); font-size: 0.8rem;
}
figcaption span[class]::before {
  content: ""; display: inline-block; width: 0.7em; height: 0.7em; margin-right: 0.4em; border-radius: 2px;
}
figcaption .surprise::before { background: var(--surprise); }
figcaption .pressure::before { background: var(--pressure); }
figcaption .prompt::before { background: var(--prompt); outline: 1px solid var(--line); }
.files { display: flex; flex-wrap: wrap; gap: 0.5rem; margin: 0; padding: 0; list-style: none; }
.files a {
  display: block; padding: 0.2rem 0.8rem; border: 1px solid var(--line); border-radius: 99px; text-decoration: none;
}
.files a::before { content: "↓ "; }
.files a:hover { border-color: currentColor; }
th { min-width: 7.5rem; }
"""
