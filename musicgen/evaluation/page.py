"""One page of findings that needs nothing else: no network, no files beside it.

The hard choice: pictures are inside the page, as images that can run nothing, so that a page can be sent to anyone.
Maps to explore are grey images too; a script colours the chosen one and says what is under the pointer. With scripts
off the first map is still there, in grey, and all else is as it was.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from urllib.parse import quote

from musicgen.evaluation.findings import Explorer, Findings, Picture, Table
from musicgen.evaluation.maps import DIGITS, png_bytes
from musicgen.web import document, escape, wrapped

TAB = "\t"  # between the options of a map; see the script
LONG = 16
"""Rows; a table of more is folded up, so that one can see what comes after it."""
LARGEST_VECTOR = 1 << 19
"""Bytes of an SVG image; a larger one is slow to draw, and stands in the page as a PNG."""


def findings_page(
    title: str, sections: Sequence[Findings], notes: Sequence[str] = (), links: Sequence[tuple[str, str]] = ()
) -> str:
    """The page as HTML. The same arguments give the same text.

    Args:
        title: A line above it all.
        sections: What was found; each becomes a part of the page.
        notes: Sentences for people, shown at the top.
        links: Pages that are beside this one, with what to call them.
    """
    several = len(sections) > 1
    places = [(f"#{section.kind}", section.title) for section in sections] if several else []
    places += [(quote(path), name) for path, name in links]
    items = [f'<li><a href="{escape(place)}">{escape(name)}</a></li>' for place, name in places]
    body = [
        "<header>",
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(note)}</p>" for note in notes),
        "</header>",
        *wrapped("<nav><ul>", items, "</ul></nav>"),
        "<main>",
        *(_section(section, several) for section in sections),
        "</main>",
    ]
    explored = any(section.explorers for section in sections)
    return document(title, STYLE, body, SCRIPT if explored else "")


def _section(findings: Findings, named: bool) -> str:
    settings = [
        f'<tr><th scope="row">{escape(str(key))}</th><td>{escape(_setting(value))}</td></tr>'
        for key, value in findings.settings.items()
    ]
    parts = [
        f'<section id="{escape(findings.kind)}">',
        *([f"<h2>{escape(findings.title)}</h2>"] if named else []),
        *(f"<p>{escape(sentence)}</p>" for sentence in findings.summary),
        *(_picture(picture) for picture in findings.pictures),
        *wrapped(
            '<div class="explorers">',
            [_explorer(explorer, f"{findings.kind}-{explorer.name}") for explorer in findings.explorers],
            "</div>",
        ),
        *(_table(table) for table in findings.tables if table.shown),
        *wrapped(
            "<details><summary>Left out</summary><ul>",
            [f"<li>{escape(line)}</li>" for line in findings.left_out],
            "</ul></details>",
        ),
        *wrapped("<details><summary>Settings</summary><table>", settings, "</table></details>"),
        "</section>",
    ]
    return "\n".join(parts)


def _setting(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _picture(picture: Picture) -> str:
    vector = len(picture.svg) <= LARGEST_VECTOR
    source = _embedded(picture.svg, "svg+xml") if vector else _embedded(picture.png, "png")
    caption = f"<figcaption>{escape(picture.title)}.</figcaption>"
    return f'<figure class="picture"><img src="{source}" alt="{escape(picture.title)}">{caption}</figure>'


def _embedded(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _table(table: Table) -> str:
    kinds = ['class="number"' if numeric else "" for numeric in table.numeric()]
    head = "".join(
        f'<th scope="col" {kind}>{escape(name)}</th>' for name, kind in zip(table.columns, kinds, strict=True)
    )
    rows = [
        "<tr>" + "".join(f"<td {kind}>{escape(text)}</td>" for text, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in table.texts()
    ]
    is_long = len(rows) > LONG
    caption = f"{escape(table.title)}."
    parts = [
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(table.title)}"><table>',
        *([] if is_long else [f"<caption>{caption}</caption>"]),
        f"<thead><tr>{head}</tr></thead>",
        *wrapped("<tbody>", rows, "</tbody>"),
        "</table></div>",
    ]
    if is_long:
        parts = [f"<details><summary>{caption} ({len(rows):,} rows)</summary>", *parts, "</details>"]
    return "\n".join(parts)


def _explorer(explorer: Explorer, name: str) -> str:
    """A map with menus above it. What the script needs is in a JSON block, which the browser takes for text."""
    images = {
        TAB.join(options): base64.b64encode(png_bytes(levels)).decode() for options, levels in explorer.maps.items()
    }
    data = {
        "images": images,
        "levels": [float(f"{level:.{DIGITS}g}") for level in explorer.levels],
        "axes": explorer.axes,
        "extent": explorer.extent,
        "labels": list(explorer.labels),
    }
    first = next(iter(explorer.maps), ())
    menus = [
        f"<label>{escape(choice)} <select>"
        + "".join(f"<option{' selected' if option == chosen else ''}>{escape(option)}</option>" for option in options)
        + "</select></label>"
        for (choice, options), chosen in zip(explorer.choices.items(), first, strict=True)
    ]
    source = f"data:image/png;base64,{images[TAB.join(first)]}" if first else ""
    block = json.dumps(data).replace("<", "\\u003c")  # in JSON a "<" need not stand as it is: it could end the block
    return "\n".join(
        [
            f'<figure class="explorer" id="{escape(name)}">',
            f"<figcaption>{escape(explorer.title)}.</figcaption>",
            f'<div class="menus">{" ".join(menus)}</div>',
            f'<div class="map"><img src="{source}" alt="{escape(explorer.title)}"><canvas hidden></canvas></div>',
            f'<output aria-live="polite">{escape(explorer.note)}</output>',
            f'<script type="application/json">{block}</script>',
            "</figure>",
        ]
    )


SCRIPT = """
for (const explorer of document.querySelectorAll(".explorer")) {
  const {images, levels, axes, extent, labels} = JSON.parse(explorer.querySelector("script").textContent);
  const menus = [...explorer.querySelectorAll("select")];
  const canvas = explorer.querySelector("canvas"), image = explorer.querySelector("img");
  const output = explorer.querySelector("output"), note = output.textContent;
  const context = canvas.getContext("2d", {willReadFrequently: true});
  let shown = new Uint8Array(0);
  const stops = levels[0] < 0
    ? [[5, 48, 97], [67, 147, 195], [247, 247, 247], [214, 96, 77], [103, 0, 31]]
    : [[0, 0, 4], [81, 18, 124], [183, 55, 121], [252, 137, 97], [252, 253, 191]];
  const colour = level => {
    const place = level / 255 * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
    return stops[low].map((value, channel) => value + (place - low) * (stops[low + 1][channel] - value));
  };
  const palette = levels.map((_, level) => colour(level));
  const paint = () => {
    const {naturalWidth: width, naturalHeight: height} = image;
    [canvas.width, canvas.height] = [width, height];
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, width, height);
    shown = new Uint8Array(width * height);
    for (let place = 0; place < shown.length; place++) {
      shown[place] = pixels.data[4 * place];
      pixels.data.set(palette[shown[place]], 4 * place);
    }
    context.putImageData(pixels, 0, 0);
    image.hidden = true;
    canvas.hidden = false;
  };
  const choose = () => {
    const png = images[menus.map(menu => menu.value).join("\\t")];
    if (png) image.src = "data:image/png;base64," + png;
    else [canvas.hidden, output.textContent] = [true, "There is no such map."];
  };
  const where = (place, size, total) => {
    const cell = Math.ceil(total / size), from = place * cell, to = Math.min(from + cell, total) - 1;
    const label = labels[from] === undefined ? "" : ` (${labels[from]})`;
    return (to > from ? `${from} to ${to}` : `${from}`) + label;
  };
  canvas.addEventListener("pointermove", event => {
    const box = canvas.getBoundingClientRect();
    const column = Math.min(Math.floor((event.clientX - box.left) / box.width * canvas.width), canvas.width - 1);
    const row = Math.min(Math.floor((event.clientY - box.top) / box.height * canvas.height), canvas.height - 1);
    if (column < 0 || row < 0) return;
    const level = levels[shown[row * canvas.width + column]];
    const [rows, columns] = [extent[0] || canvas.height, extent[1] || canvas.width];
    output.textContent = `${axes[0]} ${where(row, canvas.height, rows)}, ` +
      `${axes[1]} ${where(column, canvas.width, columns)}: ${Number(level.toPrecision(3))}`;
  });
  canvas.addEventListener("pointerleave", () => { output.textContent = note; });
  image.addEventListener("load", () => { output.textContent = note; paint(); });
  if (image.complete && image.naturalWidth) paint();
  for (const menu of menus) menu.addEventListener("change", choose);
  choose();
}
"""

STYLE = """
body { max-width: 88rem; }
section { margin-bottom: 2rem; padding: clamp(1rem, 2vw, 1.8rem); background: var(--card);
  border: 1px solid var(--line); border-radius: 14px; }
section > p { max-width: 80ch; margin: 0.6rem 0; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.4rem 1.4rem; margin: 0 0 1.6rem; padding: 0; list-style: none; }
figure { margin: 1.4rem 0; }
figcaption, caption { margin-bottom: 0.4rem; color: var(--faint); font-size: 0.9rem; text-align: left; }
.picture { display: flex; flex-direction: column-reverse; align-items: flex-start; }
.picture img { max-width: 100%; height: auto; background: #fff; border-radius: 8px; }
.table { margin: 1.4rem 0; overflow-x: auto; }
.table table { margin: 0; font-size: 0.92rem; }
.table td, .table th { overflow-wrap: normal; white-space: nowrap; }
.table td:first-child { white-space: normal; min-width: 9rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.table tbody tr:hover { background: color-mix(in srgb, var(--link) 8%, transparent); }
.explorers { display: grid; gap: 0 1.8rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
.explorer { min-width: 0; }
.menus { display: flex; flex-wrap: wrap; gap: 0.5rem 1.2rem; margin-bottom: 0.6rem; }
select { font: inherit; padding: 0.15rem 0.4rem; }
.map img, .map canvas { width: min(100%, 44rem); height: auto; image-rendering: pixelated; border-radius: 4px; }
.map img[hidden], .map canvas[hidden] { display: none; }
.map canvas { cursor: crosshair; touch-action: none; }
output { display: block; min-height: 1.5em; color: var(--faint); font-variant-numeric: tabular-nums; }
details { margin-top: 0.8rem; }
"""
