"""Figures that are laid out once, however often they are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def lay_out(figure: Figure) -> None:
    """Give the panels of a figure their places, for good.

    Otherwise matplotlib does so for each file that it writes, and draws everything twice for it: many panels take
    longer to place than to draw.
    """
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)
