"""The look of figures, how they become files, and the maps of an `Explorer` as grey images.

Design note: the same findings give the same bytes. Figures do not use pyplot's global state, and files name no date and
no program.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from musicgen.evaluation.report.findings import Explorer, Picture
from musicgen.figures import lay_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4c9a", "#4d4d4d", "#a6761d", "#117733",
    "#882255", "#88ccee", "#999933", "#aa4499", "#332288", "#bbbbbb",
)  # fmt: skip
"""One for each model, in the order given. Colour-blind readers can tell the first ones apart."""
DOTS = 120  # to the inch
LARGEST_SIDE = 1 << 13  # of a map that is read, because a small file may contain a huge image
DIGITS = 7
"""Digits of numbers in files: enough for measurements, and few enough to hide differences in rounding."""


def colour(number: int) -> str:
    """The colour of a model; after the last colour they begin again."""
    return COLOURS[number % len(COLOURS)]


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> Figure:
    """An empty figure; sizes are in inches."""
    from matplotlib.figure import Figure  # takes seconds, which an error message should not wait for

    return Figure(figsize=(width, height), dpi=DOTS, layout=layout)


def tidy(axes: Axes, grid: str = "y") -> None:
    """Remove the box, and draw a faint grid."""
    axes.grid(axis=grid, color="0.9", linewidth=0.7)  # type: ignore[arg-type]  # one of x, y, both
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def mark(axes: Axes, place: int, words: str) -> None:
    """A vertical line with a label."""
    axes.axvline(place, color="black", linewidth=1)
    axes.annotate(
        words, (place, 1), xycoords=("data", "axes fraction"), xytext=(4, -3),
        textcoords="offset points", va="top", size=9,
    )  # fmt: skip


def label(text: str, longest: int = 32) -> str:
    """A name that a figure can show: short, with a square for each character that the font lacks.

    A dollar sign does not begin a formula.
    """
    from matplotlib.font_manager import FontProperties, findfont, get_font

    known = get_font(findfont(FontProperties())).get_charmap()
    text = "".join(letter if ord(letter) in known and letter.isprintable() else "□" for letter in text)
    text = text if len(text) <= longest else f"…{text[1 - longest :]}"
    return text.replace("$", r"\$")


def render(figure: Figure, name: str, title: str) -> Picture:
    """A figure as a picture, with its name and title."""
    import matplotlib as mpl

    lay_out(figure)
    files = {}
    with mpl.rc_context({"svg.hashsalt": "musicgen"}):
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DOTS, metadata=metadata)
            files[kind] = file.getvalue()
    return Picture(name, title, files["png"], files["svg"])


def map_name(explorer: Explorer, options: tuple[str, ...]) -> str:
    """The file of one map."""
    return "_".join([explorer.name, *(re.sub(r"[^0-9A-Za-z.-]+", "-", option) for option in options)]) + ".png"


def png_bytes(levels: NDArray[np.uint8]) -> bytes:
    """A map as a grey PNG, compressed without loss."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(levels).save(file, format="PNG", optimize=True)
    return file.getvalue()


def read_png(data: bytes) -> NDArray[np.uint8]:
    """The levels of a grey PNG."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            if max(image.size) <= LARGEST_SIDE:
                return np.asarray(image.convert("L"))
            size = f"{image.width} × {image.height}"
    except Image.DecompressionBombError:
        size = "that many pixels"
    raise ValueError(f"a map of {size} is too large")
