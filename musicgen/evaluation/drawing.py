"""How the figures of evaluations look, and how they become files.

The hard choice: the same findings give the same bytes. Figures are made without pyplot's global state, and what would
date them or name this machine is left out.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from musicgen.evaluation.findings import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b4c9a", "#4d4d4d", "#a6761d", "#117733",
    "#882255", "#88ccee", "#999933", "#aa4499", "#332288", "#bbbbbb",
)  # fmt: skip
"""The first are told apart by colour-blind readers too; one for each model, in the order in which they are given."""
DOTS = 120  # to the inch


def colour(number: int) -> str:
    """The colour of a model; there are as many as one can tell apart, and then they begin again."""
    return COLOURS[number % len(COLOURS)]


def tidy(axes: Axes, grid: str = "y") -> None:
    """Take away what is not data: the box, and grid lines other than the faintest."""
    axes.grid(axis=grid, color="0.9", linewidth=0.7)  # type: ignore[arg-type]  # one of x, y, both
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def label(text: str, longest: int = 32) -> str:
    """A name for a figure: a square for what the font cannot show, which would be a warning, and no longer than this.

    A dollar is a dollar, and begins no formula.
    """
    from matplotlib.font_manager import FontProperties, findfont, get_font

    known = get_font(findfont(FontProperties())).get_charmap()
    text = "".join(letter if ord(letter) in known and letter.isprintable() else "□" for letter in text)
    text = text if len(text) <= longest else f"…{text[1 - longest :]}"
    return text.replace("$", r"\$")


def render(figure: Figure, name: str, title: str) -> Picture:
    """A figure as a picture of a name and a title."""
    import matplotlib as mpl

    files = {}
    with mpl.rc_context({"svg.hashsalt": "musicgen"}):
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DOTS, metadata=metadata)
            files[kind] = file.getvalue()
    return Picture(name, title, files["png"], files["svg"])
