"""What the picture of a corpus shows about a language's songs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple


class Panel(NamedTuple):
    """One panel of the picture of a corpus.

    Attributes:
        kind: `histogram` of values, `bars` by label, or `steps`: a line for each label.
        title: Label of the horizontal axis.
        unit: Label of the vertical axis.
        labels: Labels of bars or lines.
        values: Values of a histogram, heights of bars, or an array for each line.
        at: Horizontal places of bars, where they are numbers.
    """

    kind: Literal["histogram", "bars", "steps"]
    title: str
    unit: str
    values: Sequence[Any]
    labels: Sequence[str] = ()
    at: Sequence[float] = ()
