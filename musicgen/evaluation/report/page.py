"""One page of findings that needs nothing else: no network and no other files.

Design note: pictures are inside the page, as images that can run nothing, so that a page can be sent to anyone. Maps to
explore are grey images; a script colours the chosen one and says what is under the pointer. Without scripts the first
map is still there, in grey, and everything else is the same.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from musicgen.evaluation.report.drawing import DIGITS, png_bytes
from musicgen.evaluation.report.findings import Explorer, Findings, Picture, Table
from musicgen.web import link, render_page

TAB = "\t"  # between the options of a map; the script uses it too
LONG = 16
"""A table with more rows than this is folded."""
LARGEST_VECTOR = 1 << 19
"""Bytes of an SVG image. A larger one is slow to draw, so the page shows the PNG image instead."""


def findings_page(
    title: str,
    sections: Sequence[Findings],
    notes: Sequence[str] = (),
    links: Sequence[tuple[str, str]] = (),
    pieces: Sequence[tuple[str, str]] = (),
) -> str:
    """The page as HTML. The same arguments give the same text.

    Args:
        title: The heading.
        sections: What was found; each is a part of the page.
        notes: Sentences at the top.
        links: Addresses of other pages in the same folder, and their titles.
        pieces: Titles of pieces to hear, and their music as JSON.
    """
    places = [(f"#{section.kind}", section.title) for section in sections] if len(sections) > 1 else []
    return render_page(
        "report",
        title,
        with_script=any(section.explorers for section in sections),
        with_pieces=bool(pieces),
        pieces=pieces,
        notes=notes,
        places=[*places, *((link(path), name) for path, name in links)],
        sections=[_section(section) for section in sections],
    )


def _section(findings: Findings) -> dict[str, Any]:
    return {
        **vars(findings),
        "settings": {str(key): _setting(value) for key, value in findings.settings.items()},
        "pictures": [(picture, _source(picture)) for picture in findings.pictures],
        "explorers": [_explorer(explorer) for explorer in findings.explorers],
        "tables": [_table(table) for table in findings.tables if table.shown],
    }


def _setting(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _source(picture: Picture) -> str:
    is_small = len(picture.svg) <= LARGEST_VECTOR
    return _embedded(picture.svg, "svg+xml") if is_small else _embedded(picture.png, "png")


def _embedded(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _table(table: Table) -> dict[str, Any]:
    is_number = table.numeric()
    rows = [list(zip(row, is_number, strict=True)) for row in table.texts()]
    return {
        "title": table.title,
        "head": list(zip(table.columns, is_number, strict=True)),
        "rows": rows,
        "folded": f"{len(rows):,}" if len(rows) > LONG else "",
    }


def _explorer(explorer: Explorer) -> tuple[Explorer, dict[str, Any], tuple[str, ...], str]:
    """An explorer, the data for its script, and the options and the image of the map that is shown first."""
    images = {options: png_bytes(levels) for options, levels in explorer.maps.items()}
    data = {
        "images": {TAB.join(options): base64.b64encode(image).decode() for options, image in images.items()},
        "levels": [float(f"{level:.{DIGITS}g}") for level in explorer.levels],
        "axes": explorer.axes,
        "extent": explorer.extent,
        "labels": list(explorer.labels),
    }
    first = next(iter(explorer.maps), ())
    return explorer, data, first, _embedded(images[first], "png") if first else ""
